"""How fast models train."""
