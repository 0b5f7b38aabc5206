"""The birthplace task: a model reads about people, learns to answer questions, and is asked about others."""
