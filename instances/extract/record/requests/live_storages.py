"""Storages that are alive, and what a recorder holds for each of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Held = TypeVar("Held")


class LiveStorages(Generic[Held]):
    """What a recorder holds for each storage that is alive, by the storage's key.

    On a GPU, autograd adds gradients into the first summand, if nothing else holds that one. Under
    fake tensors it makes a new tensor, and the summand ends at once. What was held for the summand
    then goes on for the result.
    """

    def __init__(
        self, ended: Callable[[Held], None], added_into: Callable[[Held, Held], None]
    ) -> None:
        self.held: dict[int, Held] = {}
        # The engine's latest addition: the storages of its first summand and of its result.
        self.addition: tuple[int, int] | None = None
        # Called with what was held for a storage that ended, or for a summand and for the result.
        self._ended, self._added_into = ended, added_into
        self._references: dict[int, weakref.ref[Any]] = {}

    def watch(self, storage: Any, held: Held) -> None:
        """Hold something for a storage until it ends."""
        key: int = storage._cdata
        self.held[key] = held
        self._references[key] = weakref.ref(storage, lambda _: self._end(key))

    def find(self, key: int) -> Any:
        """Return the storage of a key."""
        return self._references[key]()

    def _end(self, key: int) -> None:
        held = self.held.pop(key)
        del self._references[key]
        if self.addition is not None and self.addition[0] == key:
            result, self.addition = self.addition[1], None
            self._added_into(held, self.held[result])
            self.held[result] = held
        else:
            self._ended(held)
