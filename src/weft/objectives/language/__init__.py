"""Losses of models of text."""
