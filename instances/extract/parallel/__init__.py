"""Data, sharded and expert parallelism: communication, streams, units."""
