"""Seeding: invented histories from JSON files, loaded by the engine's own rules (docs/seeds.md)."""
