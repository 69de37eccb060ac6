"""Why memory ran out: what is alive, what is stranded, and what would have helped."""
