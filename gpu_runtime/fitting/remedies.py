"""Remedies for a program that does not fit: changes, and the memory it needs after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpu_runtime.fitting.eight_bit_states import has_wide_states, with_eight_bit_states
from gpu_runtime.fitting.fit_check import LIVE, AllocatorFit, Fits, RankFit
from gpu_runtime.fitting.largest_value import LargestValues
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError

# By allocator, what a user who changes to it does, and how.
OTHER_ALLOCATORS = {
    "pytorch-expandable": (
        "expandable segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    ),
    "planned": ("a plan", "planned memory in place of PyTorch's allocator"),
}
EIGHT_BITS = "optimizer in 8 bits"


@dataclass(frozen=True)
class Remedy:
    """A change, and the memory that the program then needs."""

    name: str
    # The change that a user makes, and the way in which the memory was computed.
    done: str
    fit: RankFit
    # Label of the allocator in use.
    allocator: str
    # True if the allocator is all that changes.
    is_allocator: bool = False

    @property
    def row(self) -> AllocatorFit:
        return next(row for row in self.fit.check.rows if row.label == self.allocator)

    @property
    def least(self) -> int:
        """Return the least reserved peak, under any allocator if the remedy is none itself."""
        rows = [row for row in self.fit.check.rows if row.label != LIVE]
        return min(row.reserved_peak for row in ([self.row] if self.is_allocator else rows))

    @property
    def falls_short(self) -> int:
        """Return 0 if it suffices, 1 if it does under another allocator, 2 if it does not."""
        if self.row.fits:
            return 0
        return 1 if self.fit.check.answer is not Fits.NO else 2


@dataclass(frozen=True)
class Program:
    """The parts of a program that remedies may change, and the check of a changed program."""

    # Traces it with changed parameters.
    check: Callable[[Mapping[str, int]], RankFit]
    # Checks the traces after a function has changed them.
    check_traces: Callable[[Callable[[AllocationTrace], AllocationTrace]], RankFit]
    # The number of processes, if it can be changed.
    ranks: int | None = None
    # The search for the largest value of a parameter that was asked for.
    largest: LargestValues | None = None


@dataclass
class Remedies:
    """The remedies that were computed, and why others were not."""

    # The program without a change.
    now: RankFit
    found: list[Remedy] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def allocator(self) -> str:
        """Return the allocator of the program without a change, the first that was asked for."""
        return next(row.label for row in self.now.check.rows if row.label != LIVE)

    @property
    def by_use(self) -> list[Remedy]:
        """Return what suffices first; of equals the least change, which is found first."""
        return sorted(self.found, key=lambda one: one.falls_short)


def seek_remedies(remedies: Remedies, program: Program) -> None:
    """Compute one remedy after the other, the least change first."""
    now, allocator = remedies.now, remedies.allocator
    for row in now.check.rows:
        if row.label not in (LIVE, allocator):
            kind = row.label.partition(":")[0]
            name, done = OTHER_ALLOCATORS.get(kind, (row.label, "another allocator"))
            remedies.found.append(Remedy(name, done, now, row.label, is_allocator=True))
    if has_wide_states(now.traced.trace):
        fit = program.check_traces(with_eight_bit_states)
        done = "replayed: 1 byte a state, a scale for 256, updates in place"
        remedies.found.append(Remedy(EIGHT_BITS, done, fit, allocator))
    else:
        remedies.left_out.append(
            f"{EIGHT_BITS}: no optimizer of PyTorch was seen to keep wider states"
        )
    for name, changes in _changes(remedies, program):
        try:
            fit = program.check(changes)
        except InstanceError as error:
            remedies.left_out.append(f"{name}: {error}")
        else:
            done = ", ".join(f"{key}={value}" for key, value in changes.items())
            remedies.found.append(Remedy(name, f"traced again with {done}", fit, allocator))


def _changes(remedies: Remedies, program: Program) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield the changes for which the program is traced again."""
    traced = remedies.now.traced
    values = traced.changeable
    if "checkpointing" not in values:
        remedies.left_out.append(
            f"checkpointing: {traced.label} has no such setting, and no parameter of this name"
        )
    if "selective" in values and not values["checkpointing"]:
        yield "selective checkpointing", {"checkpointing": True, "selective": True}
    if "checkpointing" in values and (not values["checkpointing"] or values.get("selective")):
        every = {"selective": False} if values.get("selective") else {}
        yield "checkpointing", {"checkpointing": True, **every}
    if program.largest is not None:
        found, start = program.largest, traced.values[0]
        largest = found.largest(remedies.allocator)
        if largest is not None and largest < start:
            name = f"{found.parameter} {largest:,} in place of {start:,}"
            fit = replace(remedies.now, check=found.tried[largest])
            done = "traced again: the largest value that fits"
            remedies.found.append(Remedy(name, done, fit, remedies.allocator))
    elif values.get("batch", 1) > 1:
        yield "half the batch", {"batch": values["batch"] // 2}
    else:
        remedies.left_out.append(f"half the batch: {traced.label} has no parameter batch above 1")
    if program.ranks is not None:
        yield "twice the ranks", {"ranks": 2 * program.ranks}
