"""``python -m evaluation.report``: what records say, as Markdown and as a page of its own."""
