"""``python -m tests.fuzz.readers --seed 7 --count 100000``: mutated files through every reader.

A file is read, planned and written in another format, or answered by one bounded line. Anything
else, a traceback, a warning, too much memory or time, is a failure, and the file is kept.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

from instances.benchmark.results_file import SUFFIX, read_results
from instances.catalogue.catalogue_entry import CatalogueEntry
from instances.catalogue.catalogue_file import read_catalogue
from instances.catalogue.listing import catalogue_table, description, record
from instances.convert.conversion import Conversion, Selection, convert, read_source, select_problem
from planners import Budget, Problem, bounds_of, get, read_problem, run
from planners.errors import MAX_MESSAGE_CHARACTERS, GaplessError
from planners.files.formats import formats
from planners.files.json_file import read_json
from planners.files.plan_file import read_plan, read_saved_plan
from planners.files.recording_slice import RecordingSlice
from planners.referee.cost_certificate import check_any_certificate
from planners.referee.naive import find_violation
from tests.fuzz.limited_child import MIB, limit_cpu, lines_of_child
from tests.fuzz.mutations import mutated
from tests.fuzz.valid_files import DYNAMIC, PLANNED, valid_files

# The files are a few thousand bytes; what any file may take is a matter of its reader's own tests.
MEMORY_BYTES = 512 * MIB
CPU_SECONDS = 5
SECONDS_TO_MAKE = 60
FILES_A_CHILD = 2000
TARGETS = (
    "b.json", "b.json.gz", "b.csv", "b.pickle", "b.perfetto.json", "b.npz", "b.txt", "b.h",
)  # fmt: skip
MAX_PLANNED = 400


def fuzz(
    seed: int,
    count: int,
    kept: Path,
    *,
    first: int = 0,
    write_valid: Callable[[Path], dict[str, bytes]] = valid_files,
    progress: Callable[[int], None] = id,
) -> list[str]:
    """Read mutated files, and return a line for each that is neither read nor refused properly.

    The seed decides every file together with its number. A folder keeps the files that failed.
    """
    formats()
    failures = []
    with tempfile.TemporaryDirectory(prefix="gapless-fuzz-") as folder:
        files = write_valid(Path(folder))
        number, end, name = first, first + count, ""
        while number < end:
            begin, until = number, min(end, number + FILES_A_CHILD)
            said = lines_of_child(
                _work(seed, range(begin, until), files, Path(folder)), MEMORY_BYTES
            )
            for line in said:
                word, _, rest = line.partition(" ")
                if word == "file":
                    number, name = int(rest.split()[0]), rest.split()[1]
                    progress(number)
                else:
                    kept.mkdir(parents=True, exist_ok=True)
                    target = kept / f"seed-{seed}-file-{number}-{name}"
                    shutil.copy(Path(folder, name), target)
                    failures.append(f"{target}: {line}")
            number += 1
    return failures


def file_of(seed: int, number: int, files: dict[str, bytes]) -> tuple[str, bytes]:
    """Return the name and the bytes of a file."""
    random = Random(f"{seed} {number}")
    name = random.choice(sorted(files))
    others = [files[other] for other in sorted(files)]
    return name, mutated(random, files[name], name, others)


def _work(
    seed: int, numbers: range, files: dict[str, bytes], folder: Path
) -> Callable[[Callable[[str], None]], None]:
    def work(say: Callable[[str], None]) -> None:
        for number in numbers:
            limit_cpu(SECONDS_TO_MAKE)
            name, data = file_of(seed, number, files)
            say(f"file {number} {name}")
            path = folder / name
            path.write_bytes(data)
            limit_cpu(CPU_SECONDS)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for fault in faults_of(path, Random(f"{seed} {number} read")):
                    say(f"{len(data)} bytes, {fault}")

    return work


def faults_of(path: Path, random: Random) -> Iterator[str]:
    """Read a file in every way that its name asks for, and yield what was no proper answer."""
    for what in _ways_of(path, random):
        try:
            what()
        except GaplessError as error:
            text = str(error)
            if "\n" in text or len(text) > MAX_MESSAGE_CHARACTERS or " failed, " in text:
                yield f"answered {text[:200]!r} in {len(text)} characters"
        except Exception as error:  # what is looked for
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
            yield f"{type(error).__name__} at {line}: {str(error)[:200]}"


def _ways_of(path: Path, random: Random) -> list[Callable[[], object]]:
    if path.suffix == ".toml":
        return [lambda: _list(read_catalogue(path))]
    if path.suffix == SUFFIX:
        return [lambda: read_results(path)]
    if path.suffix == ".plan":
        problem = DYNAMIC if path.stem == "space" else PLANNED
        return [lambda: read_saved_plan(problem, path)]
    if path.suffix == ".certificate":
        return [lambda: check_any_certificate(read_json(path))]
    recording_slice = random.choice(
        (
            RecordingSlice(),
            RecordingSlice(-1),
            RecordingSlice(0, round_to=512),
            RecordingSlice(1, persistent=False),
            RecordingSlice(-1, dynamic_modules=("head*",)),
            RecordingSlice(round_to=1 << 40),
        )
    )
    output = path.with_name(random.choice(TARGETS))
    planner = random.choice((None, "greedy-size-first"))
    selection = random.choice(
        (Selection(), Selection(), Selection("all"), Selection("last", False, 1 << 40))
    )
    conversion = Conversion(path, output, planner=planner, selection=selection)
    return [
        lambda: _plan(read_problem(path, recording_slice)),
        lambda: _convert_and_read(conversion),
    ]


def _list(entries: Mapping[str, CatalogueEntry]) -> None:
    catalogue_table(entries.values(), [Path()]).plain()
    for entry in entries.values():
        description(entry, [Path()])
        json.dumps(record(entry, [Path()]))


def _plan(problem: Problem) -> None:
    if problem.tensor_count > MAX_PLANNED:
        return
    with _own_time():
        bounds = bounds_of(problem, 1.0)
        result = run(problem, get("greedy-size-first"), Budget(time_limit_seconds=1.0))
    if result.plan is not None:
        assert find_violation(problem, result.plan) is None
        assert result.plan.peak >= max((bound.bytes for bound in bounds), default=0)


def _convert_and_read(conversion: Conversion) -> None:
    convert(conversion)
    output = conversion.output
    if output.suffix == ".h" or output.suffixes[-2:] == [".perfetto", ".json"]:
        return
    try:
        if ".json" in output.suffixes and conversion.is_planned:
            source = read_source(conversion.source)
            read_plan(select_problem(source, conversion.selection), output)
        else:
            # Of a problem without bytes a snapshot holds no event, so its device has to be named.
            read_source(output, 0 if output.suffix == ".pickle" else None)
    except GaplessError as error:
        raise AssertionError(f"what was written is not read: {error}") from None


@contextmanager
def _own_time() -> Iterator[None]:
    """Let planning take what it likes of the processor: its limit is its own."""
    before = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (before[1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)


def main() -> int:
    """Read mutated files by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.readers", description=__doc__)
    parser.add_argument("--seed", type=int, default=Random().randrange(1 << 32))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--kept", type=Path, default=Path("fuzz-failures"), help="for what fails")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, files {asked.first} to {asked.first + asked.count - 1}", flush=True)

    def progress(number: int) -> None:
        if number % 10_000 == 0:
            print(f"file {number}", file=sys.stderr, flush=True)

    failures = fuzz(asked.seed, asked.count, asked.kept, first=asked.first, progress=progress)
    for failure in failures:
        print(failure)
    print(f"{asked.count} files, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
