"""Recipes of models of text."""
