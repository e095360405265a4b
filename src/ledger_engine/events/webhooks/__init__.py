"""Webhooks: the endpoints, the deliveries to them, and the process that sends them.

See docs/decisions.md#webhooks.
"""
