"""What every other package uses: time, ids, money, records, errors, settings, and the tenant of a request."""
