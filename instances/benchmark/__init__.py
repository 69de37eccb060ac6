"""The benchmark for planners of others: a folder to take away, results files, and their judge."""
