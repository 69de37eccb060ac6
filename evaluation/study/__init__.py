"""Studies: what is run on which instances, as data, and the records that the runs leave."""
