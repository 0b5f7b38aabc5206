"""Studies of how models learn."""
