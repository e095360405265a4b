-- The W3C `traceparent` of a request, NULL without a valid one: in its log entry, and in its events for their
-- webhooks.
ALTER TABLE requests ADD COLUMN traceparent TEXT;
ALTER TABLE events ADD COLUMN traceparent TEXT;
