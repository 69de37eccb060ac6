"""Commands of ``gapless``: one for each command line, in this package and in others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ENTRY_POINT_GROUP = "gapless.commands"

# Takes the arguments and the program's name for the help; ends with ``SystemExit``.
Main = Callable[[list[str], str], object]


@dataclass(frozen=True)
class Command:
    """A command of ``gapless``.

    An installed package offers a command by an entry point in the group ``gapless.commands``. Its
    name is the command's name, and its value is an object of this class. The module of the object
    should import little, because every listing of the commands loads it.

    Parameters
    ----------
    summary
        One line.
    main
        ``module:function``, imported when the command is run. The function takes the arguments, a
        list of strings, and the program's name for the help.
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
DOCTOR = Command("what is installed here, and what is missing for what", "planners.doctor:main")
REFEREE = Command(
    "check a certificate: a proof that no plan needs fewer bytes", "planners.referee.__main__:main"
)
