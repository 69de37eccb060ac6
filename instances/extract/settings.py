"""The settings of an extraction, checked once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from instances.extract.streams import StreamScheme
from planners.errors import InstanceError, near_names

# MindSpore, in which the paper measured, allows 350 nodes on a stream of ordinary kernels on
# Ascend. BERT-base then spreads over 17 streams, and parallel execution costs memory: its heaviest
# antichain exceeds the lifetime bound, which it equals from 1,000 nodes a stream on.
DEFAULT_NODES_PER_STREAM = 350

# PyTorch's DistributedDataParallel calls its 25 * 2**20 bytes "25 MB" (bucket_cap_mb).
BYTES_PER_BUCKET_MB = 1 << 20

STREAMS = tuple(scheme.value for scheme in StreamScheme)
REPLICATED = "replicated"
SHARDED = "sharded"


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
    streams
        ``"category"`` or ``"roles"``, see :class:`instances.extract.streams.StreamScheme`.
    parallel
        ``"replicated"``, every rank keeps all parameters, or ``"sharded"``, a part of each.
    ranks
        Ranks that shards, and the experts of a mixture, are divided among.

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
    streams: str = StreamScheme.CATEGORY.value
    parallel: str = REPLICATED
    ranks: int = 8

    def __post_init__(self) -> None:
        for name in ("batch", "seq", "nodes_per_stream", "bucket_mb", "ranks"):
            if getattr(self, name) < 1:
                raise InstanceError(f"setting {name}: at least 1, found {getattr(self, name)}")
        if not (math.isfinite(self.clip_norm) and self.clip_norm >= 0):
            raise InstanceError(
                f"setting clip_norm: a finite number, 0 for no clipping, found {self.clip_norm}"
            )
        for name, allowed in (("streams", STREAMS), ("parallel", (REPLICATED, SHARDED))):
            value = getattr(self, name)
            if value not in allowed:
                raise InstanceError(
                    f"setting {name}: {' or '.join(allowed)}, found {value!r}; "
                    f"{near_names(value, allowed)}"
                )

    @property
    def stream_scheme(self) -> StreamScheme:
        """How nodes are given streams."""
        return StreamScheme(self.streams)

    @property
    def sharded(self) -> bool:
        """Whether a rank keeps shards of parameters, gradients and optimizer state."""
        return self.parallel == SHARDED

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
