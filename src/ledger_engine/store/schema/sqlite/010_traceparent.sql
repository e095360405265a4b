-- The W3C `traceparent` of a request, in its log entry and in its events, whose webhooks send it; NULL if the
-- request had none or an invalid one.
ALTER TABLE requests ADD COLUMN traceparent TEXT;
ALTER TABLE events ADD COLUMN traceparent TEXT;
