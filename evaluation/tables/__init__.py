"""Tables and claims of pages as data: SQL over the records."""
