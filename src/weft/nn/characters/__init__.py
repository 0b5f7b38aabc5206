"""Layers from the characters of words."""
