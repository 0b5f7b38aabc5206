"""Energy-based models."""
