"""Losses of generative models."""
