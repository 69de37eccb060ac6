"""A lower bound on the peak with so many waits, by parts of the graph that need one each.

Note [Each window needs a wait of its own]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Rationale. The lifetimes of the global order bound the peak with any number of waits. With few waits
much more can be needed: each heavy moment of a step needs a wait of its own.

Approach. A user of a tensor is final if no path leads from it to another user. A window [l, h] is a
range of nodes in the global order. Take the tensors whose producer is at most h and whose final
users are all at least l, and a heaviest antichain W of them. If no wait (u, v) has l <= u and
v <= h, then W stays an antichain: let a precede b, both of W. Then a path leads from each final
user of a to the producer of b. All of its nodes lie in the window, because the global order is an
order of all arcs and waits. So it has no wait, and a preceded b before. The other users of a lead
to a final one, so that the final ones decide.

Hence, if W weighs more than x bytes, each set of waits with a peak of at most x has a wait within
the window. Windows that share one node at most share no wait. If there are n of them, n waits are
needed, and a peak with fewer waits is above x. Going from left to right and taking the smallest h
each time gives the most windows.

Approach to a proof. Whether k waits do for x bytes: if there are more than k windows, they do not.
If there is none, the antichain allows it, and a plan may decide. Else one of the waits lies in a
window, so each candidate there is tried, with the windows of the graph that has it and k - 1 waits
more. The candidates are enough, because each wait may be replaced by one, and the windows hold for
the set that comes out.

Limits. With many candidates in each window and some waits this takes too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np

from planners import _core
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.waits.saved_bytes import saved_bytes
from planners.waits.waiting_streams import Wait, WaitingStreams, Waits

# Whether a plan of so many bytes exists with some waits; raises TimeoutError if it is not known.
HasPlan = Callable[[Waits, int], bool]


class WaitProof:
    """Whether so many waits do for a plan of so many bytes."""

    def __init__(self, streams: WaitingStreams, candidates: Sequence[Wait]) -> None:
        self._streams = streams
        self._candidates = candidates
        self._budget = Budget()
        # The sets of waits from which no others led to a plan.
        self._refuted: set[Waits] = set()

    def fitting(self, bytes_: int, count: int, budget: Budget, has_plan: HasPlan) -> Waits | None:
        """Return at most so many waits with which a plan fits, or None if there are none.

        Raises ``TimeoutError`` if the time does not suffice to know.
        """
        self._budget, self._refuted = budget, set()
        return self._fitting(bytes_, count, frozenset(), has_plan)

    def _fitting(self, bytes_: int, count: int, waits: Waits, has_plan: HasPlan) -> Waits | None:
        if count == 1:
            return self._fitting_with_one(bytes_, waits, has_plan)
        windows: list[tuple[int, int]] = []
        for window in self._windows_above(bytes_, waits):
            windows.append(window)
            if len(windows) > count:
                return None
        if not windows and has_plan(waits, bytes_):
            return waits
        if not count:
            return None
        inside = list(self._candidates)
        if windows:
            inside = self._within(*self._tight(*min(windows, key=self._width), bytes_, waits))
        for wait in inside:
            longer = waits | {wait}
            if len(longer) == len(waits) or longer in self._refuted:
                continue
            found = self._fitting(bytes_, count - 1, longer, has_plan)
            if found is not None:
                return found
            self._refuted.add(longer)
        return None

    def _fitting_with_one(self, bytes_: int, waits: Waits, has_plan: HasPlan) -> Waits | None:
        """Return waits with one more with which a plan fits: one that saves what is too much."""
        heaviest, witness = self._antichain(waits)
        if heaviest <= bytes_ and has_plan(waits, bytes_):
            return waits
        _, saved = saved_bytes(self._streams, waits, witness, self._candidates)
        for each in np.flatnonzero(heaviest - saved <= bytes_).tolist():
            longer = waits | {self._candidates[each]}
            if self._antichain(longer)[0] <= bytes_ and has_plan(longer, bytes_):
                return longer
        return None

    def _antichain(self, waits: Waits) -> tuple[int, IntColumn]:
        if self._budget.remaining_seconds() == 0:
            raise TimeoutError
        return self._streams.antichain(waits)

    def _within(self, low: int, high: int) -> list[Wait]:
        return [wait for wait in self._candidates if low <= wait[0] and wait[1] <= high]

    def _width(self, window: tuple[int, int]) -> int:
        return len(self._within(*window))

    def _tight(self, low: int, high: int, bytes_: int, waits: Waits) -> tuple[int, int]:
        """Return the window with its first node as late as its bytes allow."""
        arcs, late = self._arcs_with(waits), high
        while late - low > 1:
            middle = (low + late) // 2
            is_above = self._heaviest_in(middle, high, arcs) > bytes_
            low, late = (middle, late) if is_above else (low, middle)
        return low, high

    def _arcs_with(self, waits: Waits) -> IntColumn:
        return np.concatenate((self._arcs, np.array(sorted(waits), dtype=np.int64).reshape(-1, 2)))

    def _windows_above(self, bytes_: int, waits: Waits) -> Iterator[tuple[int, int]]:
        """Yield each window whose antichain has more bytes, the shortest after the one before."""
        low, last, width = 0, self._streams.graph.node_count - 1, 1
        arcs = self._arcs_with(waits)
        while low < last:
            short, high = low, min(low + width, last)
            while self._heaviest_in(low, high, arcs) <= bytes_:
                if high == last:
                    return
                short, high = high, min(low + 2 * (high - low), last)
            while high - short > 1:
                middle = (short + high) // 2
                is_above = self._heaviest_in(low, middle, arcs) > bytes_
                short, high = (short, middle) if is_above else (middle, high)
            yield low, high
            # The next window is about as long, which saves some antichains.
            low, width = high, high - low

    def _heaviest_in(self, low: int, high: int, arcs: IntColumn) -> int:
        """Return the bytes of the heaviest antichain of the tensors of a window.

        Its nodes alone decide; one node more, on a stream of its own, stands for all later ones.
        """
        if self._budget.remaining_seconds() == 0:
            raise TimeoutError
        graph, size = self._streams.graph, self._streams.problem.size
        is_chosen = (graph.producer <= high) & (self._first_final >= low) & (size > 0)
        is_read = is_chosen[graph.consumer_tensors] & (graph.consumer_nodes >= low)
        readers = np.bincount(graph.consumer_tensors[is_read], minlength=len(size))[is_chosen]
        stream = np.append(self._streams.stream[low : high + 1], graph.node_count)
        window = _core.Graph(
            np.unique(stream, return_inverse=True)[1].astype(np.int32),
            (np.maximum(graph.producer[is_chosen], low) - low).astype(np.int32),
            np.append(0, np.cumsum(readers)),
            (np.minimum(graph.consumer_nodes[is_read], high + 1) - low).astype(np.int32),
            (arcs[(arcs[:, 0] >= low) & (arcs[:, 1] <= high)] - low).astype(np.int32),
        )
        return int(_core.AntichainSearch(window, size[is_chosen]).run(np.inf)[0])

    @cached_property
    def _arcs(self) -> IntColumn:
        graph = self._streams.graph
        tensors = np.column_stack((graph.producer[graph.consumer_tensors], graph.consumer_nodes))
        arcs = np.concatenate((tensors[tensors[:, 0] < tensors[:, 1]], graph.control))
        return np.unique(arcs, axis=0)

    @cached_property
    def _first_final(self) -> IntColumn:
        """The first final user of each tensor."""
        reach = self._streams.reach(frozenset())
        first = np.empty(self._streams.graph.tensor_count, dtype=np.int64)
        for tensor in range(len(first)):
            users = np.unique(self._streams.users_of(tensor))
            if len(users) > 1:
                leads = reach.leads(users[:, None], users[None, :])
                users = users[leads.sum(axis=1) == 1]
            first[tensor] = users[0]
        return first
