"""Benchmarks in further languages: translated, cleaned, evidence found again, quality graded."""
