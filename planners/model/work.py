"""The work of a graph's nodes: operations, bytes, phase, and whether they may run again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import IntColumn, frozen_column, frozen_rows, require_each

FORWARD, BACKWARD, OPTIMIZER = range(3)


@dataclass(frozen=True, eq=False, init=False)
class Work:
    """The operations and bytes of each node of a graph, and whether it may run a second time.

    Parameters
    ----------
    flops
        int64, one a node: floating-point operations, two for a multiplication and an addition.
    moved_bytes
        int64, one a node: bytes of all tensors that it reads and writes, parameters included.
    phase
        int64, one a node: 0 in the forward pass, 1 in the backward pass, 2 in the optimizer.
    repeatable
        int64, one a node: 1 if a second run from the same inputs gives the same results and
        changes nothing else, else 0. A node that draws random numbers is repeatable, because its
        random state can be kept.
    written
        int64 pairs ``(node, tensor)``: the node changes a tensor in place that another node made.

    Raises
    ------
    InstanceError
        A column has another length than the first, or an entry is out of its range.
    """

    flops: IntColumn
    moved_bytes: IntColumn
    phase: IntColumn
    repeatable: IntColumn
    written: IntColumn

    COLUMNS: ClassVar = ("flops", "moved_bytes", "phase", "repeatable")
    # The largest value of each column; None for any count.
    _MOST: ClassVar = {"phase": OPTIMIZER, "repeatable": 1}

    def __init__(
        self,
        *,
        flops: Iterable[int] | IntColumn,
        moved_bytes: Iterable[int] | IntColumn,
        phase: Iterable[int] | IntColumn,
        repeatable: Iterable[int] | IntColumn,
        written: Iterable[Sequence[int]] | IntColumn = (),
    ) -> None:
        columns = (flops, moved_bytes, phase, repeatable)
        for name, values in zip(self.COLUMNS, columns, strict=True):
            field = f"graph.work.{name}"
            column = frozen_column(field, values, entry="node")
            if len(column) != len(getattr(self, "flops", column)):
                raise InstanceError(
                    f"field {field}: one entry a node is needed, found {len(column)} for "
                    f"{len(self.flops)} of flops"
                )
            most = self._MOST.get(name)
            right = (column >= 0) & (column <= (np.iinfo(np.int64).max if most is None else most))
            rule = "at least 0 is needed" if most is None else f"0 to {most} is needed"
            require_each(field, "node", right, rule, column)
            object.__setattr__(self, name, column)
        object.__setattr__(self, "written", frozen_rows("graph.work.written", written, width=2))

    def __repr__(self) -> str:
        return f"<Work: {len(self.flops)} nodes, {self.flops.sum():,} floating-point operations>"

    def require_for(self, nodes: int, tensors: int) -> None:
        """Raise unless there is one entry a node, and `written` names nodes and tensors."""
        if len(self.flops) != nodes:
            raise InstanceError(
                f"field graph.work.flops: one entry a node is needed, found {len(self.flops)} for "
                f"{nodes} nodes of graph.op"
            )
        known = np.all((self.written >= 0) & (self.written < [nodes, tensors]), axis=1)
        rule = f"a node below {nodes} and a tensor below {tensors} are needed"
        require_each("graph.work.written", "pair", known, rule, self.written)

    def select(self, order: IntColumn, tensor_place: IntColumn) -> Work:
        """Return the work of nodes in another order, with other numbers for the tensors.

        Parameters
        ----------
        order
            int64: the number that the node at each place has here.
        tensor_place
            int64, one a tensor: its number there, or -1 if it is left out.
        """
        node_place = np.full(len(self.flops), -1, dtype=np.int64)
        node_place[order] = np.arange(len(order))
        written = np.column_stack(
            (node_place[self.written[:, 0]], tensor_place[self.written[:, 1]])
        )
        return Work(
            **{name: getattr(self, name)[order] for name in self.COLUMNS},
            written=written[(written >= 0).all(axis=1)],
        )
