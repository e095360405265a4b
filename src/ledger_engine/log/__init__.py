"""The transparency log: each book's events as a Merkle tree whose root is signed (docs/verify.md)."""
