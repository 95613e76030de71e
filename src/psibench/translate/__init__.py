"""Benchmarks in further languages: translated, cleaned, quality graded."""
