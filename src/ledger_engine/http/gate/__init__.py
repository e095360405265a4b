"""The checks that each request passes before its operation: credential, rate limit, sizes, body."""
