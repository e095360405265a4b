"""The benchmarks behind the claims about speed: `python -m bench`. README.md here describes them."""
