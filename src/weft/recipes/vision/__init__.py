"""Recipes of models that read images."""
