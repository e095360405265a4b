"""Test helpers, which `serve --test-helpers` offers to people who test an app (docs/testing.md)."""
