"""OAuth 2.0: apps, the users who authorize apps, and the apps' tokens (docs/decisions.md#oauth)."""
