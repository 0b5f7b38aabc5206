"""Studies of energy-based models."""
