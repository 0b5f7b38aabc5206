"""Models of text and of words."""
