"""The types of events, which webhook endpoints take and the live stream has."""

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
