"""Which module a program is in, backward passes and recomputation included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed._tools.mod_tracker import ModTracker

_OUTSIDE = "Global"


# Untyped in PyTorch.
module_tracker: Callable[[], Any] = ModTracker


def innermost_module(tracker: Any, leaving: str | None = None) -> str:
    """Return the module that runs now, or whose backward pass does.

    Parameters
    ----------
    tracker
        What `module_tracker` returned, active.
    leaving
        A module that the tracker is about to leave, and that does not count.

    Returns
    -------
    str
        The class of the outermost module and the path from there, ``"Bert.encoder.layer.3"``; the
        deepest where several run, as a backward pass ends in one after it begins in the next;
        empty outside of modules.
    """
    inside = [name for name in tracker.parents if name not in (_OUTSIDE, leaving)]
    return max(inside, key=lambda name: (name.count("."), name), default="")
