"""Lower bounds of one problem, as far as they are known; ``bounds`` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np

from planners import _core
from planners.model.columns import IntColumn, read_only
from planners.text.byte_units import both_bytes, counted


@dataclass(frozen=True, eq=False)
class Bound:
    """A number of bytes that no plan stays below.

    Parameters
    ----------
    name
        Name of the certificate.
    witness
        int64 tensors that prove it: pairwise unsafe, with this sum of sizes; or, for ``block``,
        the members of the one block.
    """

    name: str
    bytes: int
    witness: IntColumn

    def __post_init__(self) -> None:
        # Kept with the problem, and shown to third parties.
        object.__setattr__(self, "witness", read_only(self.witness))

    def __repr__(self) -> str:
        witness = counted(len(self.witness), "tensor")
        return f"<Bound {self.name}: {both_bytes(self.bytes)}, by {witness}>"


def _no_clique() -> Bound:
    return Bound("clique", 0, np.empty(0, dtype=np.int64))


@dataclass(eq=False)
class KnownBounds:
    """What is known of a problem's bounds, and how far the searches for more have come."""

    # The quick bounds; empty before they are asked for.
    quick: list[Bound] = field(default_factory=list)
    # The heaviest antichain; None before it is proven.
    antichain: Bound | None = None
    # The search for it, where one was begun and not ended.
    antichain_search: _core.AntichainSearch | None = None
    # Why there can be none: what it would take of memory. Empty where nothing speaks against it.
    too_large: str = ""
    # The heaviest clique so far, and how many tensors have started one.
    clique: Bound = field(default_factory=_no_clique)
    cliques_grown: int = 0
    # Held by whoever reads or extends this.
    lock: Lock = field(default_factory=Lock)

    def apart(self) -> KnownBounds:
        """Return what is known as objects of its own; a search that has begun stays here."""
        with self.lock:
            return KnownBounds(
                [replace(bound) for bound in self.quick],
                None if self.antichain is None else replace(self.antichain),
                too_large=self.too_large,
                clique=replace(self.clique),
                cliques_grown=self.cliques_grown,
            )
