"""``gapless doctor``: what is installed here, and what each missing part would need."""

from __future__ import annotations

from planners.command_line.starting import start

if __name__ == "__main__":
    start()

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import metadata, requires
from typing import NoReturn

from planners.command_line.typer_frame import CommandLine
from planners.entry_points import load_group
from planners.errors import install_command
from planners.processes import standard_output
from planners.text.plain_text import describe_error, text_of
from planners.text.table import aligned_pairs
from planners.version import __version__, version_of

# An installed package offers findings by an entry point in this group: a function without
# parameters that yields pairs, a part and what was found of it.
ENTRY_POINT_GROUP = "gapless.findings"
Findings = Callable[[], Iterable[tuple[str, str]]]

OURS = "gapless"
# Packages that every installation has.
NEEDED = ("numpy", "scipy", "ortools", "pulp")
_NAME = re.compile(r"[\w.-]+")
_OF_EXTRA = re.compile(r"extra == ['\"]([\w.-]+)['\"]")

app = CommandLine()


@app.command()
def doctor() -> None:
    """Show versions, solvers, extras, compilers and devices, and how to install what is missing."""
    for title, findings in (("installed", _installed), ("extras", _extras)):
        _write(title, findings)
    for name, findings in load_group(ENTRY_POINT_GROUP, "finding"):
        _write(name, findings)


def main(args: Sequence[str] | None = None, program: str | None = None) -> NoReturn:
    """Run the command line."""
    app.run(args, program)


def _write(title: str, findings: Findings) -> None:
    pairs: list[tuple[str, str]] = []
    try:
        pairs.extend((text_of(part), text_of(found)) for part, found in findings())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # what is broken here is what a user wants to see
        pairs.append(("failed", describe_error(error)))
    standard_output.write(f"{title}\n{aligned_pairs(pairs, '  ')}")


def _installed() -> Iterator[tuple[str, str]]:
    yield OURS, __version__
    yield "python", f"{platform.python_version()}, {platform.platform()}"
    for package in NEEDED:
        yield package, version_of(package) or f"missing: {install_command()}"


def _extras() -> Iterator[tuple[str, str]]:
    """Yield each extra with the packages that it lacks; their versions are pip's to judge."""
    packages = packages_of_extras(requires(OURS) or [])
    for extra in metadata(OURS).get_all("Provides-Extra") or []:
        missing = [each for each in packages.get(extra, []) if version_of(each) is None]
        lacks = f"lacks {', '.join(missing)}: {install_command(extra)}"
        yield extra, lacks if missing else "installed"


def packages_of_extras(requirements: Iterable[str]) -> dict[str, list[str]]:
    """Return the packages of each extra, those of extras within it included."""
    packages: dict[str, list[str]] = {}
    for requirement in requirements:
        needed, _, marker = requirement.partition(";")
        of = _OF_EXTRA.search(marker)
        name = _NAME.match(needed.strip())
        if of is None or name is None:
            continue
        # An extra that names others stands behind them in the metadata.
        within = needed.partition("[")[2].partition("]")[0].split(",")
        added = [name[0]] if name[0] != OURS else [p for e in within for p in packages.get(e, [])]
        known = packages.setdefault(of[1], [])
        known += [package for package in added if package not in known]
    return packages


if __name__ == "__main__":
    main(program="python -m planners.doctor")
