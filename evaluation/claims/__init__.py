"""What papers say, held against records: each claim comes out true, false or not measured."""
