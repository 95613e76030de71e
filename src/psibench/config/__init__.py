"""Sections of the config and the registries, which a job can import without other packages.

A section is defined here or in the package that reads it; `psibench.plan` composes the sections.
"""
