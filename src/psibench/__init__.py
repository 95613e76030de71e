"""Position-aware retrieval benchmarks and the Position Sensitivity Index."""

__version__ = "0.1.0"
