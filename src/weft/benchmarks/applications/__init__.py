"""Text applications on real data, each beside its baselines."""
