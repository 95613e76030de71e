"""How benchmarks are made: documents drawn from a source, queries by one recipe a file."""
