"""Learning rules of energy-based models."""
