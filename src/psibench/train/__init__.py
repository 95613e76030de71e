"""Training with controlled positions: pools and draws, fine-tuning, PADS, result tables."""
