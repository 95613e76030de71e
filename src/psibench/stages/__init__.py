"""The stages a workflow is made of: each reads tables, calls the package, writes tables."""
