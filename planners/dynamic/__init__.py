"""Dynamic requests: the addresses of the static pool that memory of unknown size may use."""
