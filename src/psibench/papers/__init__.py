"""The five papers: their published figures, and a run's beside them; no core module imports it."""
