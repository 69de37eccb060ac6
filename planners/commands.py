"""Commands of ``gapless``: one for each command line, in this package and in others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ENTRY_POINT_GROUP = "gapless.commands"

# Takes the arguments and what the help calls the program; ends with ``SystemExit``.
Main = Callable[[list[str], str], object]


@dataclass(frozen=True)
class Command:
    """A command of ``gapless``.

    An installed package offers one by an entry point in the group ``gapless.commands``, whose name
    is the command's and whose value is such an object, in a module that imports little: it is
    loaded whenever the commands are listed.

    Parameters
    ----------
    summary
        One line.
    main
        ``module:function``, imported when the command is run. The function takes the arguments, a
        list of strings, and what the help calls the program.
    """

    summary: str
    main: str

    def load(self) -> Main:
        """Import the function that runs the command."""
        from importlib import import_module

        module, _, function = self.main.partition(":")
        main: Main = getattr(import_module(module), function)
        return main


COMPARE = Command("every planner on every instance, in one table", "planners.compare.__main__:main")
HOMOSIZE = Command(
    "plan one instance by phases and sizes, and show every stage", "planners.homosize.__main__:main"
)
REORDER = Command(
    "look for an order of a graph's nodes that needs fewer bytes", "planners.reorder.__main__:main"
)
