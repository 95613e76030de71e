"""What a config will ask, use and cost, and how much it has to encode: before it runs."""
