"""Studies of attention and of models of text."""
