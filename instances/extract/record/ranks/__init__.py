"""One rank of a distributed step, recorded without the others and without their GPUs."""
