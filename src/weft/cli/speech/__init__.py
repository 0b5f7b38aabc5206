"""Commands about speech."""
