"""Recipes of sound."""
