"""The form in which instances travel to workers: bounded in size, and checked on arrival."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from instances.formats.numpy_archive import arrays_in
from planners.errors import InstanceError, errors_at
from planners.files.json_file import compact_json
from planners.files.problem_file import problem_from_fields, problem_to_fields
from planners.model.bounds import Bound, bounds_of
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence, requests_of_problem

# Limits of an unpacked problem, as text, and of the columns of a recording (26 million events).
MOST_TEXT_BYTES = 1 << 31
MOST_COLUMN_BYTES = 1 << 31
COLUMNS = (
    "action", "request", "event", "size", "stream", "address", "segments", "iteration_rows",
    "phase", "module", "pool",
)  # fmt: skip
NAMES = "names"


@dataclass(frozen=True)
class SentInstance:
    """A packed problem, and its requests if it is a recording."""

    name: str
    family: str | None
    digest: str
    tensors: int
    capacity: int | None
    # The content of an instance file, compressed; and an archive of the columns of the requests.
    problem: bytes
    requests: bytes | None

    @classmethod
    def of(
        cls,
        problem: Problem,
        requests: RequestSequence | None,
        *,
        family: str | None,
        digest: str,
    ) -> SentInstance:
        """Pack a problem, and its requests if it is a recording."""
        text = compact_json(problem_to_fields(problem)).encode()
        sent = None if requests is None else packed_requests(requests)
        return cls(
            problem.name, family, digest, problem.tensor_count, problem.capacity,
            zlib.compress(text, 1), sent,
        )  # fmt: skip

    def unpacked(self) -> Problem:
        """Return a new problem, which holds no cached facts."""
        with errors_at(f"instance {self.name}, as it was sent"):
            return problem_from_fields(_unfolded(self.problem))

    def unpacked_requests(self, problem: Problem) -> RequestSequence:
        """Return the requests for an online allocator: recorded ones, or those of the lifetimes."""
        if self.requests is None:
            return requests_of_problem(problem)
        with errors_at(f"instance {self.name}, requests as they were sent"):
            return unpacked_requests(self.requests)


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request sequence that are not columns."""

    name: str
    recorded: bool
    modules: list[Any]


@dataclass(frozen=True)
class Question:
    """The question of an instance: the digest of the problem, and the capacity for a plan."""

    digest: str
    capacity: int | None


@dataclass(frozen=True)
class Training:
    """A training of a model, which travels as it is; its name is its text on the command line."""

    name: str
    capacity = file = None

    @property
    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def question(self) -> Question:
        return Question(self.digest, None)

    def sent(self) -> Training:
        return self


# A small cache suffices: the runs of an instance come one after the other.
@lru_cache(maxsize=2)
def known_of(instance: SentInstance, bounds_seconds: float) -> tuple[Problem, tuple[Bound, ...]]:
    """Return the problem of an instance, and its bounds, found in at most ``bounds_seconds``."""
    problem = instance.unpacked()
    return problem, tuple(bounds_of(problem, bounds_seconds))


def packed_requests(requests: RequestSequence) -> bytes:
    """Return the columns of a sequence as an archive of arrays."""
    names = {"name": requests.name, "recorded": requests.is_recorded}
    # Names travel as text: an array of strings pads each name to the longest.
    said = compact_json({**names, "modules": requests.module_names}).encode()
    arrays: dict[str, Any] = {column: getattr(requests, column) for column in COLUMNS}
    arrays[NAMES] = np.frombuffer(said, np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpacked_requests(sent: bytes) -> RequestSequence:
    """Return the packed sequence; one that breaks a rule of sequences is refused."""
    arrays = arrays_in(sent, (*COLUMNS, NAMES), MOST_COLUMN_BYTES)
    for name in (*COLUMNS, NAMES):
        if name not in arrays:
            raise InstanceError(f"array {name}: missing, and every sequence of requests needs it")
    said = _names(arrays.pop(NAMES).tobytes())
    return RequestSequence(
        said.name,
        is_recorded=said.recorded,
        module_names=tuple(said.modules),
        **arrays,
    )


def _names(text: bytes) -> _Said:
    try:
        return msgspec.json.decode(text, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InstanceError(f"array {NAMES}: {error}") from None


def _unfolded(sent: bytes) -> Any:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(sent, MOST_TEXT_BYTES)
        if unpacker.unconsumed_tail:
            raise InstanceError(f"at most {MOST_TEXT_BYTES} bytes of text are taken, found more")
        return json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise InstanceError(f"no whole problem arrived: {error}") from None
