"""The requests of a run, made again to online allocators."""
