"""Sections of the config and the registries: the low layer that a job may read without the rest.

A section stands beside the code that reads it or here; `psibench.plan` composes them.
"""
