"""Dynamic requests: where in the static pool memory of unknown size may lie."""
