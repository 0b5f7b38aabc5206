"""How fast models answer."""
