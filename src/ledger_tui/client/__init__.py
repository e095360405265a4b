"""The way to the server: the only part that speaks HTTP. Knows nothing of Textual."""
