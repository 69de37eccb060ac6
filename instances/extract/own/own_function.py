"""``my_script.py:make_step``: find a user's function, call it, and name bad lines."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from gapless_siblings import showing
from instances.extract.own.one_step import Step, is_step
from instances.extract.own.trainers import is_trainer
from planners.errors import GaplessError, InstanceError, near_names
from planners.processes import standard_output
from planners.text.plain_text import describe_error, shown, text_of

# Beginnings of PyTorch's messages on a tensor that it cannot follow. The sentences after them are
# advice for its own developers.
_MADE_ELSEWHERE = "Please convert all Tensors to FakeTensors first"
_DEPENDS_ON_DATA = ("DataDependentOutputException", "DynamicOutputShapeException")


class EndOfTrace(BaseException):
    """Ends a program that has made as many steps as are traced."""


@contextmanager
def user_code(path: Path, otherwise: int | None = None) -> Iterator[None]:
    """Turn an exception of a user's code into an error that names the line of the file.

    The line is that of the deepest call within the file, else the line `otherwise`. The code's own
    output goes to standard error, because standard output is the answer of the command.
    """
    try:
        with showing(ours=False), standard_output.kept_for_the_answer():
            yield
    except (KeyboardInterrupt, EndOfTrace):
        raise
    except BaseException as error:  # a file may end in any way, SystemExit among them
        line = _line_of(error, path) or otherwise
        where = path if line is None else f"{path}:{line}"
        raise InstanceError(f"{where}: {_described(error)}") from error


def _line_of(error: BaseException, path: Path) -> int | None:
    file = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == file), None)


def _described(error: BaseException) -> str:
    if isinstance(error, GaplessError):
        return str(error)
    if type(error).__name__ in _DEPENDS_ON_DATA:
        return (
            f"memory that depends on the values of data cannot be traced, as fake tensors have "
            f"none; found {text_of(error)}"
        )
    # Whatever reads a number has imported it.
    read = sys.modules.get("instances.extract.record.gpu.read_numbers")
    if read is not None and read.is_refusal(error):
        return str(read.USED_AS_LENGTH)
    if _MADE_ELSEWHERE in text_of(error):
        return "a tensor made outside of the traced function is used; make it within"
    return describe_error(error)


Argument = bool | int | float | str

_SEPARATOR = ".py:"
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (bool, int, float, str)}


@dataclass
class OwnFile:
    """A user's file, which is run when something in it is asked for."""

    path: Path
    # Arguments on the command line of the file.
    words: Sequence[str] = ()
    _module: ModuleType | None = None

    @contextmanager
    def called(self, *options: str) -> Iterator[None]:
        """Within this context the file finds its own command line, and options after it."""
        with mock.patch.object(sys, "argv", [str(self.path), *self.words, *options]):
            yield

    def find(self, name: str) -> Any:
        """Return the object of a name in the file; an ``InstanceError`` names near ones."""
        if self._module is None:
            with self.called():
                self._module = run_user_file(self.path)
        found = getattr(self._module, name, None)
        if callable(found) or is_trainer(found):
            return found
        own = [
            key
            for key, value in vars(self._module).items()
            if inspect.isfunction(value) and value.__module__ == self._module.__name__
        ]
        hint = near_names(name, own) if own else "it defines no function"
        raise InstanceError(f"{self.path}: no function is called {name!r}; {hint}")


@dataclass(frozen=True)
class OwnFunction:
    """A user's program that trains, and its arguments.

    That is a function that makes a training step, a function that trains, a trainer, or a script as
    a whole, which has no name.
    """

    file: OwnFile
    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def function(self) -> Any:
        return self.file.find(self.name)

    @property
    def label(self) -> str:
        """The name in progress lines and in the origin, without the folders of this machine."""
        return f"{self.path.name}:{self.name}" if self.name else self.path.name

    @property
    def line(self) -> int | None:
        """The line at which a Python function begins; None for a function of another language."""
        if not self.name or not callable(self.function):
            return None
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return None if code is None else code.co_firstlineno

    @property
    def where(self) -> str:
        """The name in error messages: file, line and function."""
        line = "" if self.line is None else f":{self.line}"
        return f"{self.path}{line}: {self.name}" if self.name else str(self.path)

    def with_arguments(self, arguments: Mapping[str, Argument]) -> OwnFunction:
        """Return the function with other values of some parameters."""
        return replace(self, arguments={**self.arguments, **arguments})

    def value_of(self, name: str) -> object:
        """Return the value of a parameter; None if the call gives none and there is no default."""
        parameters = self._parameters()
        self._require_known(name, parameters)
        if name in self.arguments or name not in parameters:
            return self.arguments.get(name)
        default = parameters[name].default
        return None if default is inspect.Parameter.empty else default

    def make(self) -> Any:
        """Call the function and return its result; a script runs as a whole, and returns None.

        A function that raises, or that takes other arguments, is an ``InstanceError`` with the
        user's line.
        """
        if not self.name:
            options = [f"--{name}={value}" for name, value in self.arguments.items()]
            ours = sys.modules["__main__"]
            try:
                with self.file.called(*options):
                    run_user_file(self.path, "__main__")
            finally:
                sys.modules["__main__"] = ours
            return None
        for name, value in self.arguments.items():
            self._require_fitting(name, value)
        if is_trainer(self.function):
            return self.function
        for name, parameter in self._parameters().items():
            given = name in self.arguments or parameter.default is not parameter.empty
            if not given and parameter.kind not in _VARIADIC:
                raise InstanceError(
                    f"{self.where}: parameter {name} has no default; give it by --set {name}=VALUE"
                )
        with user_code(self.path, self.line), self.file.called():
            return self.function(**self.arguments)

    def require_step(self, step: object) -> Step:
        """Return a step that was made; anything else is an ``InstanceError``."""
        if is_step(step):
            return step
        if not self.name:
            raise InstanceError(
                f"{self.where}: a script that trains or evaluates, or FILE.py:FUNCTION, is needed; "
                f"no module was called"
            )
        raise InstanceError(
            f"{self.where} has to return a TrainingStep or a function that runs one step, found "
            f"{type(step).__name__}; or a trainer, or to train by itself"
        )

    def run(self, step: Step) -> None:
        """Run one step; an error names the user's line."""
        with user_code(self.path, self.line):
            step()

    def _require_fitting(self, name: str, value: Argument) -> None:
        parameters = self._parameters()
        self._require_known(name, parameters)
        kind = _kind_of(parameters[name]) if name in parameters else None
        fits = kind is None or type(value) is kind or (kind is float and type(value) is int)
        if not fits:
            assert kind is not None
            raise InstanceError(
                f"{self.where}, parameter {name}: {kind.__name__} is needed, found {shown(value)}"
            )

    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        if not self.name:  # what a script takes is not known
            return _parameters(lambda **_: None)
        return _parameters(self.function if callable(self.function) else lambda: None)

    def _require_known(self, name: str, parameters: Mapping[str, inspect.Parameter]) -> None:
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if name not in parameters and not takes_any:
            hint = near_names(name, parameters) if parameters else "it takes none"
            raise InstanceError(f"{self.where} has no parameter {name!r}; {hint}")


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def is_own(name: str) -> bool:
    """Return True if a name means a function in a file, and not a registered model."""
    return _SEPARATOR in name or name.endswith(".py")


def find_own_function(
    name: str, settings: Iterable[str] = (), words: Sequence[str] = ()
) -> OwnFunction:
    """Find ``FILE.py:FUNCTION``, or ``FILE.py``; the file is run when the function is asked for.

    Settings are values of its parameters, ``batch=16`` each: bool, int, float or else text.
    """
    file, _, function_name = (name, "", "") if name.endswith(".py") else name.rpartition(":")
    if not file.endswith(".py") or (_SEPARATOR in name and not function_name):
        raise InstanceError(
            f"{name}: FILE.py:FUNCTION is needed, such as my_script.py:make_step, or FILE.py"
        )
    if not Path(file).is_file():
        raise InstanceError(f"{file}: a Python file is needed, found none")
    arguments = dict(parse_argument("--set", one) for one in settings)
    return OwnFunction(OwnFile(Path(file), words), function_name, arguments)


def run_user_file(path: Path, name: str = "") -> ModuleType:
    """Run a user's Python file as an import does; it can import modules beside it.

    Under the name ``"__main__"`` it runs as a script does.
    """
    if not path.is_file():
        raise InstanceError(f"{path}: a Python file is needed, found none")
    name = name or f"gapless_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InstanceError(f"{path}: a Python file is needed, whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where classes of the file are looked up by name
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with user_code(path):
        spec.loader.exec_module(module)
    return module


def parse_argument(option: str, setting: str) -> tuple[str, Argument]:
    """Return name and value of a text such as ``batch=16``, which an option gives."""
    name, equals, text = setting.partition("=")
    if not equals or not name.isidentifier():
        raise InstanceError(f"{option}: NAME=VALUE is needed, such as batch=16, found {setting!r}")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text
    return name, value if isinstance(value, (bool, int, float, str)) else text


def _parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _kind_of(parameter: inspect.Parameter) -> type | None:
    """Return the type that a parameter's values have, by its default or its annotation."""
    if type(parameter.default) in _TYPES.values():
        return type(parameter.default)
    return _TYPES.get(getattr(parameter.annotation, "__name__", str(parameter.annotation)))


def require_left_out(name: str, given: Mapping[str, object]) -> None:
    """Refuse the options of registered models: a user's function decides those itself."""
    for option, value in given.items():
        raise InstanceError(
            f"--{option.replace('_', '-')}: {name} decides this itself; make it a parameter of "
            f"the function and give --set {option}={value}, found the option"
        )


def require_no_set(name: str, settings: Sequence[str] | None, words: Sequence[str] | None) -> None:
    """Refuse parameters of a function, and words of a script, with a registered model."""
    for setting in settings or ():
        raise InstanceError(
            f"--set {setting}: parameters are those of FILE.py:FUNCTION; {name} is a registered "
            f"model, which has options"
        )
    if words:
        raise InstanceError(
            f"arguments after {name} are those of your own FILE.py; {name} is a registered model, "
            f"which has options, found {' '.join(words)!r}"
        )
