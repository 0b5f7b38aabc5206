"""Layers of models of sound."""
