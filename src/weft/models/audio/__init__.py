"""Models of sound."""
