"""Reads the answers of servers for both programs, within limits. It imports httpx and nothing else."""
