"""Speed of lazyten beside numpy, torch, JAX and tinygrad: `python -m benchmarks` (`make bench`)."""
