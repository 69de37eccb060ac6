"""The lower bounds of one problem, as far as they are known; ``bounds`` computes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from planners import _core
from planners.model.columns import IntColumn, read_only
from planners.text.byte_units import both_bytes, counted


@dataclass(frozen=True, eq=False)
class Bound:
    """A lower bound, in bytes, on the peak of every plan.

    Parameters
    ----------
    name
        Name of the certificate.
    witness
        int64 tensors that prove it: pairwise unsafe, with this sum of sizes; for ``aligned``, with
        this sum of rounded sizes, less what rounding adds to one; for ``block``, the members of the
        one block.
    """

    name: str
    bytes: int
    witness: IntColumn

    def __post_init__(self) -> None:
        # The witness is stored with the problem and given to third parties, so it must be
        # read-only.
        object.__setattr__(self, "witness", read_only(self.witness))

    def __repr__(self) -> str:
        witness = counted(len(self.witness), "tensor")
        return f"<Bound {self.name}: {both_bytes(self.bytes)}, by {witness}>"


@dataclass(eq=False)
class KnownBounds:
    """The known bounds of a problem, and the state of the searches for more."""

    # The quick bounds; empty until the first request.
    quick: list[Bound] = field(default_factory=list)
    # The heaviest step with sizes rounded to alignments; 0 where alignment adds nothing.
    aligned: Bound = field(default_factory=lambda: Bound("aligned", 0, np.empty(0, dtype=np.int64)))
    # The heaviest antichain; None until it is proven.
    antichain: Bound | None = None
    # An unfinished search for it, or None.
    antichain_search: _core.AntichainSearch | None = None
    # Why the antichain cannot be computed: the memory that it would take. Empty if it can.
    too_large: str = ""
    # The heaviest clique so far, and how many tensors have started one.
    clique: Bound = field(default_factory=lambda: Bound("clique", 0, np.empty(0, dtype=np.int64)))
    cliques_grown: int = 0
    # Held while these fields are read or extended.
    lock: Lock = field(default_factory=Lock)
