"""Speech to text: what recognisers say, and when."""
