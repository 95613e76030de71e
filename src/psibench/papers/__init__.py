"""Published values of the five papers, compared with a run; no core module imports this package."""
