"""The HTTP protocol: the socket, HTTP/1.1, request bodies, authentication and rate limits."""
