"""What the speed claims are measured with: `python -m bench`, see README.md."""
