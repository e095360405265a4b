"""The checks before a request reaches its operation: credential, rate limit, sizes, body."""
