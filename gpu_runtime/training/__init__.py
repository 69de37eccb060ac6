"""A real training step under several allocators: the same bits, how much memory, how long."""

from planners.siblings import require_ours

require_ours("instances")
