"""``gapless COMMAND``: everything that ``python -m`` offers, under one name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from planners.command_line.ending import leave, run_in_order
from planners.command_line.starting import EXIT_ERROR, start
from planners.commands import ENTRY_POINT_GROUP, Command
from planners.entry_points import load_group, warn_left_out
from planners.errors import GaplessError, near_names
from planners.processes import standard_output
from planners.text.plain_text import shown, text_of
from planners.text.table import aligned_pairs
from planners.version import __version__

COMPLETION_OPTIONS = ("--install-completion", "--show-completion")


def commands() -> Mapping[str, Command]:
    """Return every command by name; what they run is not imported."""
    known: dict[str, Command] = {}
    for name, loaded in load_group(ENTRY_POINT_GROUP, "command"):
        if not isinstance(loaded, Command):
            error = TypeError(f"a planners.commands.Command is needed, found {shown(loaded)}")
            warn_left_out(f"command {name}", error)
        elif name in known:
            warn_left_out(f"command {name}", ValueError(f"{name!r} is taken"))
        else:
            known[name] = loaded
    return dict(sorted(known.items()))


def main(args: Sequence[str] | None = None) -> None:
    """Run the command that the first word names."""
    words = list(sys.argv[1:] if args is None else args)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    start()
    chosen: list[Callable[[], object]] = []
    code = run_in_order(lambda: _answer(words, chosen))
    if code or not chosen:
        leave(code)
    # A command is imported out here: until it runs, an interrupt has nothing to keep.
    for run in chosen:
        run()


def _answer(words: list[str], chosen: list[Callable[[], object]]) -> int:
    """Answer what needs no command, or put the call of the one that is named into ``chosen``."""
    known = commands()
    first = words[0] if words else ""
    if first in COMPLETION_OPTIONS or os.environ.get("_GAPLESS_COMPLETE"):
        chosen.append(lambda: _complete(known, words))
    elif first in known:
        chosen.append(lambda: known[first].load()(words[1:], f"gapless {first}"))
    elif first in ("--help", "-h"):
        standard_output.write(_help(known))
    elif first == "--version":
        standard_output.write(f"gapless {__version__}\n")
    elif first:
        raise GaplessError(f"no command is called {first!r}; {near_names(first, known)}")
    else:
        print(_help(known), end="", file=sys.stderr)
        return EXIT_ERROR
    return 0


def _complete(known: Mapping[str, Command], words: Sequence[str]) -> None:
    # Imported here because Typer takes longer to import than all that the other answers need.
    from planners.completion import complete

    complete(known, words)


def _help(known: Mapping[str, Command]) -> str:
    lines = aligned_pairs(
        ((name, text_of(command.summary)) for name, command in known.items()), "  "
    )
    return (
        "usage: gapless COMMAND ...\n\n"
        "Plan tensor memory, prove how far a plan is from optimal, run it.\n\n"
        f"{lines}\n"
        "Begin with: gapless compare bert, then gapless replay bert.\n"
        "gapless COMMAND --help shows a command's options; gapless --version shows the version.\n"
        "gapless --install-completion lets your shell complete commands and options.\n"
    )
