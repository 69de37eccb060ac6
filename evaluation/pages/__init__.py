"""Tables, figures and memory maps of records, as Markdown and as HTML."""
