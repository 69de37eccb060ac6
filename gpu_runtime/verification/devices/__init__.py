"""What a trial runs on: this machine's memory, with simulated streams or threads, or a GPU."""
