"""The types of events, in webhooks and in the live stream."""

EVENT_TYPES = (
    "account.created",
    "transaction.created",
    "invoice.created",
    "invoice.updated",
    "invoice.opened",
    "invoice.paid",
    "invoice.voided",
    "user.created",
    "user.deactivated",
    "user.restored",
    "order.created",
    "order.paid",
    "order.shipped",
)
