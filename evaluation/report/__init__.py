"""``python -m evaluation.report``: tables and figures of records, as Markdown and as HTML."""
