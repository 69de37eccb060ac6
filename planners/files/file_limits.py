"""Limits that every reader puts on an untrusted file, in proportion to the file's bytes.

Note: limits on work as well as on bytes
----------------------------------------
Rationale. A few hundred bytes can hold a product of 100,000 factors, functions that double each
other thirty times, or one long vector that 30,000 tensors share. A limit on the bytes that are read
sees none of these.

Approach. Before a reader spends memory or time, it charges the work to an `Allowance`: an amount
for a file of any size, and more for each byte of the file. Only `element_count` multiplies numbers
of elements; it bounds the number of factors and the product.

Limits. The allowances are chosen so that a file of 1 MB takes at most 10 s and 1.5 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planners.errors import InstanceError
from planners.text.plain_text import shown

MAX_TEXT_BYTES = 1 << 28
# Limit of archives and pickles, whose numbers take fewer bytes than as text.
MAX_BINARY_BYTES = 1 << 29
# Limit of models with their weights: the bytes that protobuf and flatbuffers can address.
MAX_MODEL_BYTES = 1 << 31

# The most dimensions that NumPy has, and more than any kernel takes.
MAX_RANK = 64
# Signed integers of 64 bits and counts of bytes stay below this.
END_OF_INTEGERS = 1 << 63


@dataclass(frozen=True)
class Allowance:
    """The amount of something that a file may ask for."""

    what: str
    free: int
    # The file may ask for ``more`` of it for each ``for_bytes`` bytes that it has.
    for_bytes: int
    more: int = 1
    most: int = END_OF_INTEGERS

    def of(self, file_bytes: int) -> int:
        """Return the amount that a file of ``file_bytes`` may ask for."""
        return min(self.most, self.free + self.more * (file_bytes // self.for_bytes))

    def require(self, asked: int, file_bytes: int, where: str = "") -> None:
        """Refuse a file that asks for more."""
        most = self.of(file_bytes)
        if asked > most:
            raise InstanceError(
                f"{where}a file of {file_bytes} bytes may ask for {most} {self.what}, found "
                f"{shown(asked)}"
            )


class ReadingWork:
    """The work of a reader for a file; each piece of work is charged before it is done."""

    def __init__(self, allowance: Allowance, file_bytes: int) -> None:
        self._allowance = allowance
        self._file_bytes = file_bytes
        self._most = allowance.of(file_bytes)
        self.done = 0

    def charge(self, amount: int = 1) -> None:
        """Add to the work, or refuse the file."""
        self.done += amount
        if self.done > self._most:
            self._allowance.require(self.done, self._file_bytes)


def element_count(lengths: Sequence[int], where: str) -> int:
    """Return the elements of a tensor; refuse a malformed shape, or one of 2**63 elements."""
    if len(lengths) > MAX_RANK:
        raise InstanceError(
            f"{where}: at most {MAX_RANK} dimensions are taken, found {len(lengths)}"
        )
    if any(length < 0 for length in lengths):
        raise InstanceError(f"{where}: no length may be negative, found {shown(list(lengths))}")
    count = 0 if 0 in lengths else 1
    for length in lengths:
        count *= length
        if count >= END_OF_INTEGERS:
            raise InstanceError(
                f"{where}: fewer than 2**63 elements are needed, found the shape "
                f"{shown(list(lengths))}"
            )
    return count


def whole_number(value: object, where: str) -> int:
    """Return a whole number of 64 bits with a sign; refuse anything else."""
    if type(value) is not int or not -END_OF_INTEGERS <= value < END_OF_INTEGERS:
        raise InstanceError(
            f"{where}: a whole number from -2**63 to 2**63 - 1 is needed, found {shown(value)}"
        )
    return value
