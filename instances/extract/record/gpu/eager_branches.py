"""Lets programs on fake tensors take the branches that they take eagerly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from unittest import mock

import torch


@contextmanager
def eager_branches() -> Iterator[None]:
    """Within this context programs take the branches that they take eagerly.

    transformers asks whether it is traced, and then leaves out branches. A mock of the question
    would keep its arguments alive, and with them their storages.
    """
    try:
        masks: object = import_module("transformers.masking_utils")
    except ImportError:
        masks = None
    if hasattr(masks, "is_tracing"):
        with mock.patch.object(masks, "is_tracing", _is_compiled):
            yield
    else:
        yield


def _is_compiled(*_: object) -> bool:
    return bool(torch.compiler.is_compiling())
