"""Completion of ``gapless`` in a shell: its commands, their subcommands and their options."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import typer

from planners.command_line.typer_frame import CommandLine, Group
from planners.commands import Command


def complete(known: Mapping[str, Command], words: Sequence[str]) -> NoReturn:
    """Answer a shell that asks for completions, or show or install the script that asks."""

    class Gapless(Group):
        # Only the command that the line names is imported: a list of commands needs no import.
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args[0] in known:
                self.commands[args[0]] = _typer_command(known[args[0]]) or self.commands[args[0]]
            return super().resolve_command(ctx, args)

    app = CommandLine(cls=Gapless, add_completion=True)
    for name, command in known.items():
        app.command(name, help=command.summary)(lambda: None)
    app.run(words, "gapless")


def _typer_command(command: Command) -> Any:
    """Return the Typer command behind a command of ``gapless``, or None if there is none."""
    main = command.load()
    app = getattr(main, "__self__", None) or getattr(sys.modules[main.__module__], "app", None)
    return typer.main.get_command(app) if isinstance(app, typer.Typer) else None
