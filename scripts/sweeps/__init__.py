"""What scripts/sweep is made of."""
