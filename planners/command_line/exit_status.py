"""How the command lines end: the exit status, and what a user can mend as one line."""

from __future__ import annotations

import sys

from planners.text.plain_text import one_line

EXIT_ERROR = 2
# 128 and the number of the signal, as shells have it.
EXIT_INTERRUPTED = 130
EXIT_NOBODY_READS = 141

# Of one message; it may quote a file of any size.
MOST_CHARACTERS = 4000


def complain(error: Exception) -> int:
    """Print an error as one line on standard error."""
    # Where standard error is closed there is nobody to tell; print would take standard output.
    if sys.stderr is not None:
        print(f"error: {one_line(str(error), MOST_CHARACTERS)}", file=sys.stderr, flush=True)
    return EXIT_ERROR
