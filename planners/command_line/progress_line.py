"""What runs now, as one line that the next one replaces."""

from __future__ import annotations

import sys

_is_shown = False


def show_progress(text: str) -> None:
    """Show a line on standard error, in place of the last; nothing where that is no terminal."""
    global _is_shown
    if sys.stderr is not None and sys.stderr.isatty() and (text or _is_shown):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        _is_shown = bool(text)
