"""The settings of an extraction, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planners.errors import InstanceError

# MindSpore, in which the paper measured, allows 350 nodes on a stream of ordinary kernels on
# Ascend. BERT-base then spreads over 17 streams, and parallel execution costs memory: its heaviest
# antichain exceeds the lifetime bound, which it equals from 1,000 nodes a stream on.
DEFAULT_NODES_PER_STREAM = 350

# PyTorch's DistributedDataParallel calls its 25 * 2**20 bytes "25 MB" (bucket_cap_mb).
BYTES_PER_BUCKET_MB = 1 << 20


@dataclass(frozen=True)
class StepSettings:
    """What a training step is extracted with.

    Parameters
    ----------
    batch
        Sequences in the batch.
    seq
        Tokens in a sequence.
    optimizer
        Name in :data:`instances.extract.optimizers.OPTIMIZERS`.
    clip_norm
        Largest global norm of the gradients; 0 leaves clipping out.
    nodes_per_stream
        Nodes after which a stream is full and the next one is opened; 350 by default, the limit
        of the framework in which the paper measured.
    bucket_mb
        Capacity of an all-reduce bucket in units of 2**20 bytes.

    Raises
    ------
    InstanceError
        A number is out of range.
    """

    batch: int = 32
    seq: int = 128
    optimizer: str = "adamw"
    clip_norm: float = 1.0
    nodes_per_stream: int = DEFAULT_NODES_PER_STREAM
    bucket_mb: int = 25

    def __post_init__(self) -> None:
        for name in ("batch", "seq", "nodes_per_stream", "bucket_mb"):
            if getattr(self, name) < 1:
                raise InstanceError(f"setting {name}: at least 1, found {getattr(self, name)}")
        if not (math.isfinite(self.clip_norm) and self.clip_norm >= 0):
            raise InstanceError(
                f"setting clip_norm: a finite number, 0 for no clipping, found {self.clip_norm}"
            )

    @property
    def bucket_bytes(self) -> int:
        """Capacity of an all-reduce bucket in bytes."""
        return self.bucket_mb * BYTES_PER_BUCKET_MB

    @property
    def command_line(self) -> str:
        """Every setting as the options of ``python -m instances.extract``."""
        return (
            f"--batch {self.batch} --seq {self.seq} --optimizer {self.optimizer} "
            f"--clip-norm {self.clip_norm:g} --nodes-per-stream {self.nodes_per_stream} "
            f"--bucket-mb {self.bucket_mb}"
        )
