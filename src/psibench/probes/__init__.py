"""Probes: what in a text an embedding looks at, by known changes of the text."""
