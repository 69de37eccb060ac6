"""Tables and claims of pages as data: expressions over one frame of records."""
