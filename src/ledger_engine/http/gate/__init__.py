"""What every request passes before it reaches its operation: credential, rate limit, sizes, body."""
