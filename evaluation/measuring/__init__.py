"""What measurements stand on: cores, resident memory, and what the machine is."""
