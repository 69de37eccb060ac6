"""Memory that a process takes on its GPU outside of PyTorch's allocator.

Note: the buffers of NCCL
-------------------------
Rationale. NCCL takes its memory from the driver, for each group of ranks that communicates: some
hundred MiB, which no trace of PyTorch has.

Approach. A group has channels, and in each a connection of the ring and one of the tree, which
NCCL makes when it first uses them (``NCCL_RUNTIME_CONNECT``). A connection has a buffer for each of
three protocols. Their sizes are the defaults in NCCL's source, ``computeBuffSizes`` in init.cc and
``NCCL_STEPS``, ``NCCL_LL_*`` and ``NCCL_LL128_*`` in device.h. They do not depend on the number of
ranks, and a group of one has none.

Limits. None of this was measured. NCCL chooses the number of channels by the links of the GPUs, and
prints it under ``NCCL_DEBUG=INFO``; the default here is a guess for eight H100 behind NVSwitches.
Buffers of NVLink SHARP, of network cards, and of point-to-point messages are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planners.text.byte_units import counted

STEPS = 8
# Lines of 16 bytes: 8 for each of 512 threads.
LOW_LATENCY_BYTES = STEPS * 8 * 512 * 16
# Elements of 8 bytes: 120 for each of 640 threads.
LOW_LATENCY_128_BYTES = STEPS * 120 * 640 * 8
SIMPLE_BYTES = 4 << 20
CONNECTION_BYTES = LOW_LATENCY_BYTES + LOW_LATENCY_128_BYTES + SIMPLE_BYTES
# The ring and the tree.
CONNECTIONS = 2
CHANNELS = 24
# Memory beside reserved bytes, without the CUDA context: rounded up from the measured bytes.
LIBRARIES = 250 << 20
MEASURED = "measured: enough in all but one of 56 trainings on an H200"


@dataclass(frozen=True)
class OutsideMemory:
    """Bytes on a GPU that its process takes outside of PyTorch's allocator."""

    libraries: int
    # Sizes of the groups that communicate; each size is more than 1.
    groups: Sequence[int] = ()
    channels: int = CHANNELS

    @property
    def nccl(self) -> int:
        """Bytes of NCCL's buffers."""
        return len(self.groups) * self.channels * CONNECTIONS * CONNECTION_BYTES

    @property
    def sources(self) -> dict[str, tuple[int | None, str]]:
        """Bytes by what takes them, None if they are left out, and where the figures come from."""
        context = "left out: --memory is what is free once it exists"
        libraries = MEASURED if self.libraries == LIBRARIES else "as given"
        found: dict[str, tuple[int | None, str]] = {"CUDA context": (None, context)}
        found["libraries and kernels"] = self.libraries, libraries
        if self.groups:
            groups = " and ".join(counted(size, "rank") for size in self.groups)
            found["NCCL"] = (
                self.nccl,
                f"a model: {counted(self.channels, 'channel')} in "
                f"{counted(len(self.groups), 'group')} of {groups}",
            )
        return found

    @property
    def total(self) -> int:
        return self.libraries + self.nccl

    def room_in(self, memory: int) -> int:
        """Return the bytes of a GPU that are left to PyTorch's allocator."""
        return max(memory - self.total, 0)
