"""How the command lines end: the exit status, and what a user can mend as one line."""

from __future__ import annotations

import typer

EXIT_ERROR = 2
# 128 and the number of the signal, as shells have it.
EXIT_INTERRUPTED = 130
EXIT_NOBODY_READS = 141


def complain(error: Exception) -> int:
    """Print an error as one line on standard error.

    Parameters
    ----------
    error
        Something the user can mend.

    Returns
    -------
    int
        The exit status.
    """
    typer.echo(f"error: {' '.join(str(error).split())}", err=True)
    return EXIT_ERROR
