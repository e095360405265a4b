"""Seeding: loads invented histories from JSON files by the engine's own rules (docs/seeds.md)."""
