"""How a page is written: its tables, and figures that cannot be true."""
