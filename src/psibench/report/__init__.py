"""The report: one self-contained HTML page about a PSI table and where its numbers come from."""
