"""The base of all other packages: time, ids, money, records, errors, settings, and a request's tenant."""
