"""How a call is measured: processor seconds, memory, turns, fresh processes."""
