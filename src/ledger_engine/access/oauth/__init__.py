"""OAuth 2.0: apps, the users who let them in, and what they get for it (decisions.md 11)."""
