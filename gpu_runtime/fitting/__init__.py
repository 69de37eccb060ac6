"""Does a training step fit a GPU: its trace, replayed under allocators and a limit."""
