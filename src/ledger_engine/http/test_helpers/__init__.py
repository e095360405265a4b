"""The test helpers over HTTP: nothing of this package is loaded for an application without them."""
