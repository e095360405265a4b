"""An HTTP/1.1 server for any ASGI application."""
