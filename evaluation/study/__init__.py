"""Studies: planners, instances and limits as data, and the records of the runs."""
