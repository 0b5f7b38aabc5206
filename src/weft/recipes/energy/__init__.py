"""Recipes of energy-based models."""
