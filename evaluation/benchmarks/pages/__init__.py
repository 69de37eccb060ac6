"""The pages of ``python -m evaluation.benchmarks``, one file a page."""
