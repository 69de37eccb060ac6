"""Does a training step fit a GPU: its trace, replayed under allocators and a limit."""

from planners.siblings import require_ours

require_ours("instances")
