"""The benchmarks behind the speed claims: `python -m bench`, see README.md."""
