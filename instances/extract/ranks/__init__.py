"""One rank of a distributed step, traced without the others and without their GPUs."""
