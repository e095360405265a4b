"""OAuth 2.0: apps, the users who authorize them, and the tokens they get (docs/decisions.md#oauth)."""
