"""Remedies for a program that does not fit: changes, and the memory it needs after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_runtime.fitting.largest_value import LargestValues
from gpu_runtime.fitting.rank_fit import LIVE, AllocatorFit, Fits, RankFit, worst_rank
from gpu_runtime.fitting.replayed_program import ReplayedProgram
from gpu_runtime.fitting.sharded_states import StateLayout
from gpu_runtime.fitting.traced_program import RANKS
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
ON_HOST = "optimizer on the host"
HOST = StateLayout(states_on_host=True)


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
        return self.fit.row(self.allocator)

    @property
    def least(self) -> int:
        """Return the least reserved peak, under any allocator if the remedy is none itself."""
        rows = [row for row in self.fit.rows if row.label != LIVE]
        return min(row.reserved_peak for row in ([self.row] if self.is_allocator else rows))

    @property
    def falls_short(self) -> int:
        """Return 0 if it suffices, 1 if it does under another allocator, 2 if it does not."""
        if self.row.fits:
            return 0
        return 1 if self.fit.answer is not Fits.NO else 2


@dataclass
class Remedies:
    """The remedies that were computed, and why others were not."""

    # The program without a change: one of each kind of rank.
    every: Sequence[RankFit]
    # The number of processes, if it can be changed.
    ranks: int | None = None
    # The search for the largest value of a parameter that was asked for.
    largest: LargestValues | None = None
    found: list[Remedy] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def now(self) -> RankFit:
        return worst_rank(self.every)

    @property
    def allocator(self) -> str:
        """Return the allocator of the program without a change, the first that was asked for."""
        return next(label for label in self.now.labels if label != LIVE)

    @property
    def by_use(self) -> list[Remedy]:
        """Return what suffices first; of equals the least change, which is found first."""
        return sorted(self.found, key=lambda one: one.falls_short)

    def add(self, name: str, done: str, fit: RankFit) -> None:
        self.found.append(Remedy(name, done, fit, self.allocator))


def seek_remedies(remedies: Remedies, program: ReplayedProgram) -> None:
    """Compute one remedy after the other, the least change first."""
    now = remedies.now
    for label in now.labels:
        if label not in (LIVE, remedies.allocator):
            name, done = OTHER_ALLOCATORS.get(label.partition(":")[0], (label, "another allocator"))
            remedies.found.append(Remedy(name, done, now, label, is_allocator=True))
    if now.traced.is_laid_out:
        remedies.left_out.append(f"{EIGHT_BITS}, {ON_HOST}: the files say where the states are")
    elif (now.traced.trace.element_bytes > 1).any():
        done = "replayed: 1 byte a state, a scale for 256, updates in place"
        for name, other in ((EIGHT_BITS, StateLayout(in_eight_bits=True)), (ON_HOST, HOST)):
            moved = [
                replace(its.traced, trace=other.of(its.traced.trace)[0]) for its in remedies.every
            ]
            if name == ON_HOST:
                done = f"replayed: {other.of(now.traced.trace)[1][0]}"
            remedies.add(name, done, worst_rank([*map(program.replayed, moved)]))
    else:
        remedies.left_out.append(
            f"{EIGHT_BITS}: no optimizer of PyTorch was seen to keep wider states"
        )
    for name, changes in _changes(remedies):
        try:
            fit = program.worst(changes)
        except InstanceError as error:
            remedies.left_out.append(f"{name}: {error}")
        else:
            done = ", ".join(f"{key}={value}" for key, value in changes.items())
            remedies.add(name, f"traced again with {done}", fit)


def _changes(remedies: Remedies) -> Iterator[tuple[str, Mapping[str, int]]]:
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
    if remedies.largest is not None:
        found, start = remedies.largest, traced.values[0]
        largest = found.largest(remedies.allocator)
        if largest is not None and largest < start:
            name = f"{found.parameter} {largest:,} in place of {start:,}"
            done = "traced again: the largest value that fits"
            remedies.add(name, done, found.tried[largest])
    elif values.get("batch", 1) > 1:
        yield "half the batch", {"batch": values["batch"] // 2}
    else:
        remedies.left_out.append(f"half the batch: {traced.label} has no parameter batch above 1")
    if remedies.ranks is not None:
        yield "twice the ranks", {RANKS: 2 * remedies.ranks}
