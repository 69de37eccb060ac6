"""The line of progress on a terminal, which the next line replaces."""

from __future__ import annotations

import sys

_is_shown = False


def show_progress(text: str) -> None:
    """Replace the line of progress on standard error, if that is a terminal."""
    global _is_shown
    if sys.stderr is not None and sys.stderr.isatty() and (text or _is_shown):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        _is_shown = bool(text)
