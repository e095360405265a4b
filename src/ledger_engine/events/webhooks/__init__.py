"""Webhooks: where events are sent, what came of each, and the process that sends them.

See docs/decisions.md#webhooks.
"""
