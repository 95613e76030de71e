"""Recipes that make benchmarks: one module per recipe."""
