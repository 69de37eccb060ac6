"""Loads the entries of a registry at its first use, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps


def at_first_use(load: Callable[[], None]) -> Callable[[], None]:
    """Return a function that loads until one of its calls has ended, and from then on does nothing.

    While a thread loads, a call in the same thread does nothing either.

    Note: no lock. A thread that comes while another one loads, loads as well: Python runs the body
    of each module once, and lets other threads wait for its end. With a lock, a thread that
    imports a package which asks the registry would wait for the thread that loads, which waits
    for the end of that import. So `load` must have the same effect when it runs twice.
    """
    loading = threading.local()
    is_loaded = False

    @wraps(load)
    def loaded() -> None:
        nonlocal is_loaded
        if is_loaded or hasattr(loading, "here"):
            return
        loading.here = True
        try:
            load()
        finally:
            del loading.here
        is_loaded = True

    return loaded
