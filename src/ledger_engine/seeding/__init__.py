"""Seeding: a made-up history from a JSON file, through the rules of the engine (docs/seeds.md)."""
