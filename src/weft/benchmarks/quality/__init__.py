"""How good trained and converted models are."""
