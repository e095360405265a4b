"""The operations of the interface, one module per resource."""
