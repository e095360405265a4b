-- The W3C `traceparent` of a request, stored with the request and with each event that the request caused. The
-- webhooks of these events send it. NULL if the request had no valid `traceparent`.
ALTER TABLE requests ADD COLUMN traceparent TEXT;
ALTER TABLE events ADD COLUMN traceparent TEXT;
