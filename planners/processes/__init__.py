"""Child processes, the signals that end a run, and standard output, which planners must not use."""
