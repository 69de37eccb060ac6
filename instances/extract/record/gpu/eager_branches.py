"""Lets programs on fake tensors take the branches that they take eagerly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from unittest import mock

# transformers asks this whether it is traced, and then leaves out branches that it takes eagerly.
_ASKS_WHETHER_TRACED = ("transformers.masking_utils", "is_tracing")


@contextmanager
def eager_branches() -> Iterator[None]:
    """Within this context programs take the branches that they take eagerly.

    A mock of the question would not do: it keeps its arguments alive, and with them their storages.
    """
    library, asks = _ASKS_WHETHER_TRACED
    if hasattr(_imported(library), asks):
        with mock.patch(f"{library}.{asks}", _not_traced):
            yield
    else:
        yield


def _not_traced(*_: object) -> bool:
    return False


def _imported(module: str) -> object:
    try:
        return import_module(module)
    except ImportError:
        return None
