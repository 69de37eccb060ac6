"""Blocks: a block is placed as one piece, and is a single tensor or a contiguous chain."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import IntColumn, read_only

NOT_PINNED = -1


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a problem in compressed rows, ordered by their lowest tensor index.

    Alignment and pins of the members become conditions on the head of the block: its offset is
    ``residue`` modulo ``modulus``; and it equals ``pinned``, unless that is -1. All columns are
    int64 and read-only.

    Source: Lamprou et al. 2023, section 4.1.
    """

    # Block ``b`` has the members ``members[indptr[b]:indptr[b + 1]]``.
    indptr: IntColumn
    # Tensor indices, in the order in which they follow each other in memory.
    members: IntColumn
    # Bytes of the block in front of each entry of ``members``.
    before: IntColumn
    # Bytes of the whole block.
    size: IntColumn
    # Condition on the offset of the block; the modulus is a power of two.
    modulus: IntColumn
    residue: IntColumn
    # Fixed offset of the block, or -1.
    pinned: IntColumn
    # Block of each tensor.
    block_of: IntColumn

    def __post_init__(self) -> None:
        for column in fields(self):
            object.__setattr__(self, column.name, read_only(getattr(self, column.name)))

    @property
    def count(self) -> int:
        return len(self.size)

    @property
    def lowest(self) -> IntColumn:
        """The least head of each block by itself."""
        return np.where(self.pinned == NOT_PINNED, self.residue, self.pinned)

    def tensors_of(self, blocks: IntColumn) -> tuple[IntColumn, IntColumn, IntColumn]:
        """Return the tensors of some blocks, block by block.

        Also return, for each block, the index of its first tensor in this list, and the number of
        its tensors.
        """
        counts = np.diff(self.indptr)[blocks]
        first = np.cumsum(counts) - counts
        entries = np.repeat(self.indptr[blocks] - first, counts) + np.arange(counts.sum())
        return self.members[entries], first, counts


def make_blocks(
    size: IntColumn, alignment: IntColumn, pinned: IntColumn, chains: tuple[tuple[int, ...], ...]
) -> Blocks:
    """Group tensors into blocks and turn the members' conditions into the head's."""
    tensors = len(size)
    if not chains:
        return _one_a_tensor(size, alignment, pinned)
    leader = np.arange(tensors)
    position = np.zeros(tensors, dtype=np.int64)
    for chain in chains:
        leader[list(chain)] = min(chain)
        position[list(chain)] = np.arange(len(chain))
    members = np.lexsort((position, leader))
    heads = np.flatnonzero(np.diff(leader[members], prepend=-1))
    offsets = np.append(heads, tensors)
    block_of_member = np.repeat(np.arange(len(heads)), np.diff(offsets))
    block_of = np.empty(tensors, dtype=np.int64)
    block_of[members] = block_of_member
    ends = np.cumsum(size[members])
    before = ends - size[members]
    before -= before[heads][block_of_member]
    modulus = np.maximum.reduceat(alignment[members], heads)
    # The first of the strictest members decides the residue; the others must agree. NumPy keeps the
    # last of several values assigned to one block, so the values are assigned in reverse.
    strictest = np.flatnonzero(alignment[members] == modulus[block_of_member])[::-1]
    residue = np.zeros(len(heads), dtype=np.int64)
    residue[block_of_member[strictest]] = (-before % alignment[members])[strictest]
    _require_alignment(members, before, alignment, residue, block_of_member)
    head_pin = _pin_heads(members, before, pinned, modulus, residue, block_of_member)
    return Blocks(
        offsets, members, before, np.add.reduceat(size[members], heads), modulus, residue,
        head_pin, block_of,
    )  # fmt: skip


def _one_a_tensor(size: IntColumn, alignment: IntColumn, pinned: IntColumn) -> Blocks:
    """Return the blocks of a problem without chains, at the cost of three new columns."""
    offsets = read_only(np.arange(len(size) + 1))
    tensors, zero = offsets[:-1], read_only(np.zeros(len(size), dtype=np.int64))
    head_pin = _pin_heads(tensors, zero, pinned, alignment, zero, tensors)
    return Blocks(offsets, tensors, zero, size, alignment, zero, head_pin, tensors)


def _require_alignment(
    members: IntColumn,
    before: IntColumn,
    alignment: IntColumn,
    residue: IntColumn,
    block_of_member: IntColumn,
) -> None:
    wrong = np.flatnonzero((residue[block_of_member] + before) % alignment[members])
    if len(wrong):
        tensor = members[wrong[0]]
        raise InstanceError(
            f"field alignment, tensor {tensor}: no offset of its chain aligns every member, "
            f"found alignment {alignment[tensor]} at {before[wrong[0]]} bytes into the chain; "
            f"pad the sizes in front of it or lower the alignment"
        )


def _pin_heads(
    members: IntColumn,
    before: IntColumn,
    pinned: IntColumn,
    modulus: IntColumn,
    residue: IntColumn,
    block_of_member: IntColumn,
) -> IntColumn:
    head_pin = np.full(len(modulus), NOT_PINNED, dtype=np.int64)
    given = np.flatnonzero(pinned[members] != NOT_PINNED)
    for entry in given.tolist():
        tensor, block = members[entry], block_of_member[entry]
        head = pinned[tensor] - before[entry]
        where = f"field pinned, tensor {tensor}"
        if head < 0:
            raise InstanceError(
                f"{where}: {before[entry]} bytes of its chain come first, found the offset "
                f"{pinned[tensor]}; at least {before[entry]} is needed"
            )
        if head_pin[block] not in (NOT_PINNED, head):
            raise InstanceError(
                f"{where}: its chain is pinned elsewhere already, found {pinned[tensor]}; "
                f"{head_pin[block] + before[entry]} agrees with the other members"
            )
        if head % modulus[block] != residue[block]:
            raise InstanceError(
                f"{where}: the offset must be aligned, with its whole chain, to "
                f"{modulus[block]}, found {pinned[tensor]}"
            )
        head_pin[block] = head
    return head_pin
