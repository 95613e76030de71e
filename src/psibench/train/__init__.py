"""Training with controlled positions: pools, batches, fine-tuning, PADS, model cards."""
