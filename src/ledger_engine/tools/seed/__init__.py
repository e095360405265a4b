"""Seeding: loads invented histories from JSON files through the engine's own rules (docs/seeds.md)."""
