"""Studies of generative models."""
