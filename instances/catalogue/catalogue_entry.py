"""One entry of the catalogue, and what each of its fields has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args

from planners.errors import InstanceError
from planners.model.columns import INT64_MAX
from planners.model.plan import Status
from planners.text.plain_text import shown

Kind = Literal["extracted graph", "extracted trace", "lowered program", "synthetic"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# What a file system of Linux takes.
MAX_NAME_BYTES = 255

CONSTRUCTION = "construction"
"""Certificate of an optimum that is known from how an instance was made."""


@dataclass(frozen=True)
class Facts:
    """What follows from an instance alone, and is derived again by a test."""

    digest: str
    tensors: int
    streams: int
    chains: int
    # Sum of all sizes in bytes.
    naive: int
    # Bytes by certificate.
    bounds: Mapping[str, int]
    # Bytes; None where the question is the smallest peak.
    capacity: int | None = None
    # Bytes, and why, where the optimum is known from how the instance was made.
    optimum: int | None = None
    proof: str = ""


@dataclass(frozen=True)
class Best:
    """The best plan that is known, whatever the capacity."""

    peak: int
    # ``optimal`` where ``peak`` is ``lower_bound``, else ``feasible``.
    status: str
    # The best lower bound in bytes, and what proves it: a bound, a planner's search, or
    # ``construction``.
    lower_bound: int
    certificate: str
    # Who found the plan, and the version and git commit of Gapless.
    planner: str
    version: str
    commit: str


@dataclass(frozen=True)
class CatalogueEntry:
    """An instance of the catalogue."""

    # That of the file without its suffix.
    name: str
    kind: Kind
    file: str
    # Whether the file is in the repository; where not, ``command`` makes it.
    committed: bool
    # What it is, in one phrase.
    origin: str
    # What makes it again, without the file to write; empty where nothing does.
    command: str
    # Versions of the packages that made it.
    made_with: str
    tags: tuple[str, ...]
    # What a reader should know, such as where it differs from a published instance, and why.
    notes: str
    facts: Facts
    best: Best

    @property
    def gap(self) -> float:
        """``peak / lower_bound - 1`` of the best known plan."""
        best = self.best
        return 0.0 if best.peak == best.lower_bound else best.peak / max(1, best.lower_bound) - 1

    @property
    def fits(self) -> bool | None:
        """Whether a plan fits the capacity; None where nobody knows or nothing is asked."""
        capacity = self.facts.capacity
        if capacity is None:
            return None
        if self.best.peak <= capacity:
            return True
        return False if self.best.lower_bound > capacity else None


_TEXTS = ("kind", "file", "origin", "command", "made_with", "notes", "digest")
_COUNTS = ("tensors", "streams", "chains", "naive")
_BEST_TEXTS = ("status", "certificate", "planner", "version", "commit")
_ALL = {*_TEXTS, *_COUNTS, "committed", "tags", "bounds", "best", "capacity", "optimum", "proof"}


def entry_from_fields(name: str, fields: Any) -> CatalogueEntry:
    """Build an entry from the content of its table."""
    if not name.isprintable():
        raise InstanceError(f"instance {shown(name)}: a name of printable characters is needed")
    reader = _Reader(name, fields)
    reader.require_known(_ALL)
    best = _Reader(name, reader.get("best", dict), "best.")
    best.require_known({*_BEST_TEXTS, "peak", "lower_bound"})
    bounds = _Reader(name, reader.get("bounds", dict), "bounds.")
    kind = reader.get("kind", str)
    if kind not in KINDS:
        reader.refuse("kind", f"one of {', '.join(KINDS)}", kind)
    status = best.get("status", str)
    if status not in (Status.OPTIMAL.value, Status.FEASIBLE.value):
        best.refuse("status", "optimal or feasible", status)
    facts = Facts(
        digest=reader.get("digest", str),
        **{field: reader.count(field) for field in _COUNTS},
        bounds={certificate: bounds.count(certificate) for certificate in bounds.fields},
        capacity=reader.count("capacity") if "capacity" in reader.fields else None,
        optimum=reader.count("optimum") if "optimum" in reader.fields else None,
        proof=reader.get("proof", str, default=""),
    )
    return CatalogueEntry(
        name=name,
        kind=kind,
        file=reader.file_name("file"),
        committed=reader.get("committed", bool),
        origin=reader.get("origin", str),
        command=reader.get("command", str, default=""),
        made_with=reader.get("made_with", str, default=""),
        tags=reader.words("tags"),
        notes=reader.get("notes", str, default=""),
        facts=facts,
        best=Best(
            peak=best.count("peak"),
            lower_bound=best.count("lower_bound"),
            **{field: best.get(field, str) for field in _BEST_TEXTS},
        ),
    )


def entry_to_fields(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the content of an entry's table; fields that say nothing are left out."""
    facts, best = entry.facts, entry.best
    fields: dict[str, Any] = {
        "kind": entry.kind,
        "file": entry.file,
        "committed": entry.committed,
        "origin": entry.origin,
        "command": entry.command,
        "made_with": entry.made_with,
        "tags": list(entry.tags),
        "notes": entry.notes,
        "digest": facts.digest,
        **{field: getattr(facts, field) for field in _COUNTS},
        "capacity": facts.capacity,
        "optimum": facts.optimum,
        "proof": facts.proof,
        "bounds": dict(facts.bounds),
        "best": {
            field: getattr(best, field)
            for field in (
                "peak", "status", "lower_bound", "certificate", "planner", "version", "commit",
            )
        },
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value not in (None, "", [])}


class _Reader:
    """Fields of one table, each asked for by its type."""

    def __init__(self, entry: str, fields: Any, prefix: str = "") -> None:
        self._entry, self._prefix = entry, prefix
        if not isinstance(fields, dict):
            self.refuse("", "a table", fields)
        self.fields: dict[str, Any] = fields

    def require_known(self, known: set[str]) -> None:
        for field in sorted(self.fields.keys() - known):
            self.refuse(field, f"one of the fields {', '.join(sorted(known))}", field)

    def get(self, field: str, kind: type, *, default: Any = None) -> Any:
        value = self.fields.get(field, default)
        if type(value) is not kind:
            words = {str: "a text", bool: "true or false", dict: "a table", list: "a list"}
            self.refuse(field, words[kind], value)
        return value

    def file_name(self, field: str) -> str:
        """Return a name of a file in the catalogue's own folder."""
        name = str(self.get(field, str))
        plain = name.isprintable() and name not in ("", ".", "..") and "/" not in name
        if not plain or len(name.encode()) > MAX_NAME_BYTES:
            self.refuse(field, f"a name of 1 to {MAX_NAME_BYTES} bytes, without a folder,", name)
        return name

    def count(self, field: str) -> int:
        value = self.fields.get(field)
        if type(value) is not int or not 0 <= value <= INT64_MAX:
            self.refuse(field, "a whole number of at least 0 that fits int64", value)
        return int(value)

    def words(self, field: str) -> tuple[str, ...]:
        values = self.get(field, list, default=[])
        for value in values:
            if type(value) is not str:
                self.refuse(field, "a list of texts", value)
        return tuple(values)

    def refuse(self, field: str, needed: str, found: object) -> NoReturn:
        found_there = "nothing" if found is None else shown(found)
        where = f"instance {self._entry}, field {self._prefix}{field}".removesuffix(", field ")
        raise InstanceError(f"{where}: {needed} is needed, found {found_there}")
