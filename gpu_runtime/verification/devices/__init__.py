"""Devices of trials: memory of this machine, with simulated streams or threads, or a GPU."""
