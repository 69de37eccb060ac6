"""CP-SAT."""
