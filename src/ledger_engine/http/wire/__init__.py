"""An HTTP/1.1 server for any ASGI application: from the socket to the application, and back."""
