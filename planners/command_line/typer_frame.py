"""The frame of every command line that Typer parses, and options that several of them share."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from planners.command_line.ending import EXIT_INTERRUPTED, leave, run_in_order
from planners.command_line.starting import EXIT_ERROR
from planners.errors import GaplessError, close_names
from planners.processes import standard_output
from planners.version import __version__

Body = TypeVar("Body", bound=Callable[..., Any])
Options = TypeVar("Options")

# The base of typer's errors about arguments. typer does not export this class, and has moved it
# between packages.
_MistakeError: Any = typer.BadParameter.__mro__[2]


class CommandLine(typer.Typer):
    """A typer application with the ending that all command lines of Gapless share.

    It prints an error, also one in the arguments, as one line on standard error and exits with 2.
    After Ctrl-C it prints ``interrupted`` and exits with 130.
    """

    def __init__(self, **options: Any) -> None:
        ours = {"cls": Group, "add_completion": False, "pretty_exceptions_enable": False}
        super().__init__(**{**ours, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Body], Body]:
        """Return the decorator of a command, see ``typer.Typer.command``."""
        return super().command(name, cls=_Command, **options)

    def command_of(
        self, fields: type[Options], name: str, **more: Any
    ) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
        """Return the decorator of a command whose options are the fields of a dataclass."""

        def decorate(body: Callable[[Options], None]) -> Callable[..., None]:
            # The names of a module that runs as a program are not those of sys.modules.
            hints = get_type_hints(fields, body.__globals__, include_extras=True)

            @wraps(body)
            def command(**parsed: Any) -> None:
                body(fields(**parsed))

            its: Any = command
            given = inspect.signature(fields).parameters.values()
            typed = [one.replace(annotation=hints[one.name]) for one in given]
            its.__signature__, its.__annotations__ = inspect.Signature(typed), hints
            return self.command(name, **more)(command)

        return decorate

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the command line, without the hook for exceptions that typer would install."""
        return typer.main.get_command(self)(*args, **options)

    def run(self, args: Sequence[str] | None = None, prog_name: str | None = None) -> NoReturn:
        """Run the command line as the program of this process, which ends with it."""
        command: Any = typer.main.get_command(self)
        leave(run_in_order(lambda: _run(command, args, prog_name)))


class _OneOfOurs(TyperCommand if TYPE_CHECKING else object):  # type: ignore[misc]
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        extra.setdefault("help_option_names", ["-h", "--help"])
        # In a command without subcommands, the word may name a file.
        if args[:1] == ["help"] and (isinstance(self, TyperGroup) or not _is_meant(args)):
            args = [*args[1:], "--help"]
        return super().make_context(info_name, args, parent, **extra)

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), _VERSION]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        if standalone_mode:
            sys.exit(run_in_order(lambda: _run(self, args, prog_name, **extra)))
        return super().main(
            args, prog_name, complete_var, standalone_mode, windows_expand_args, **extra
        )


class _Command(_OneOfOurs, TyperCommand):
    pass


class Group(_OneOfOurs, TyperGroup):
    """A group of subcommands, as every command line with subcommands has."""


def _is_meant(args: Sequence[str]) -> bool:
    return len(args) > 1 or os.path.exists(args[0])


def _say_version(context: typer.Context, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:  # a shell that completes the line asks nothing
        standard_output.write(f"gapless {__version__}\n")
        raise typer.Exit


_AsksForVersion = Annotated[
    bool,
    typer.Option(
        "--version", callback=_say_version, is_eager=True, expose_value=False,
        help="Show the version and exit.",
    ),
]  # fmt: skip


def _version_option() -> Any:
    # typer makes the option itself, because its classes differ between its versions.
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(version: _AsksForVersion = False) -> None: ...

    return typer.main.get_command(app).params[0]


_VERSION = _version_option()


def _run(
    command: _OneOfOurs, args: Sequence[str] | None, prog_name: str | None, **extra: Any
) -> int:
    words = list(sys.argv[1:] if args is None else args)
    program = prog_name or _program()
    # A shell that asks for completions sets this variable; Typer's own `main` answers and exits.
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()
    if os.environ.get(variable):
        command.main([], program, variable, standalone_mode=False)
    try:
        with command.make_context(program, words, **extra) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return EXIT_INTERRUPTED
    except _MistakeError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return EXIT_ERROR
        if getattr(error, "possibilities", None):  # typer's may be unlike the word
            error.possibilities = close_names(error.option_name, error.possibilities)
        parsed = getattr(error, "ctx", None)
        hint = f"; see {parsed.command_path} --help" if parsed is not None else ""
        # pydantic, which newer versions of typer use, puts this text before every message.
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        raise GaplessError(f"{message}{hint}") from None
    return 0


def _program() -> str:
    """Return the command by which the user started this program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return sys.argv[0].rpartition("/")[2]
    return f"python -m {spec.name.removesuffix('.__main__')}"


# Options that several command lines have, with one meaning and one text.
Iteration = Annotated[
    str, typer.Option(metavar="last|N|all", help="Iteration of a recording to plan.")
]
Persistent = Annotated[
    bool, typer.Option(help="Plan also the blocks that live before and after the iteration.")
]
OnlyStatic = Annotated[
    bool, typer.Option("--static", help="Plan only the tensors that are not dynamic.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.py", help="Python file that registers planners; repeatable."),
]
ListPlanners = Annotated[
    bool, typer.Option("--list", help="List the planners, one line each, and stop.")
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
TimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", help="Wall-clock limit of each planner.")
]
# The formats of most use among those that matplotlib writes.
PICTURE_FILE = "FILE.png|svg|pdf"
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SizedDimensions = Annotated[
    list[str] | None,
    typer.Option(
        "--dimension",
        metavar="NAME=N",
        help="Size of an open dimension of a model file; repeatable.",
    ),
]
