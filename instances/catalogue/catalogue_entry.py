"""One entry of the catalogue, and the kind of each of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NoReturn, get_args, get_type_hints

from planners.errors import InstanceError
from planners.model.columns import INT64_MAX
from planners.model.plan import Status
from planners.text.plain_text import shown

Kind = Literal[
    "extracted graph", "extracted trace", "lowered program", "synthetic", "published benchmark"
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

Difficulty = Literal["easy", "hard", "open"]
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)

# The greedy planners, as patterns for `planners.registry.choose`.
GREEDY = "greedy-*,many-objects-*,pressure"

# The longest file name on Linux.
MAX_NAME_BYTES = 255

# Certificate of an optimum that follows from the way in which an instance was made.
CONSTRUCTION = "construction"


@dataclass(frozen=True)
class Facts:
    """Facts that follow from an instance alone; a test derives them again."""

    digest: str
    tensors: int
    streams: int
    chains: int
    # Sum of all sizes in bytes.
    naive: int
    # Bytes by certificate.
    bounds: Mapping[str, int]
    # Bytes; None if the instance asks for the smallest peak.
    capacity: int | None = None
    # Bytes of an optimum that is known by construction, and its proof.
    optimum: int | None = None
    proof: str = ""


@dataclass(frozen=True)
class Best:
    """The best plan that is known, whatever the capacity."""

    peak: int
    # ``optimal`` if ``peak`` is ``lower_bound``, else ``feasible``.
    status: str
    # The best lower bound in bytes, and its proof: a bound, a planner's search or ``construction``.
    lower_bound: int
    certificate: str
    # The planner that found the plan, and the version and git commit of Gapless; both are empty if
    # the planner is not one of Gapless.
    planner: str
    version: str
    commit: str


@dataclass(frozen=True)
class CatalogueEntry:
    """An instance of the catalogue."""

    # The file name without its suffix.
    name: str
    kind: Kind
    file: str
    # True if the repository has the file; else ``command`` makes it.
    committed: bool
    # A description of the instance in one phrase.
    origin: str
    # The command that makes the instance again, without ``-o``; empty if no command does.
    command: str
    # Versions of the packages that made it.
    made_with: str
    tags: tuple[str, ...]
    # Notes for the reader, such as differences from a published instance.
    notes: str
    # Who published the instance, and its licence; empty for instances of Gapless.
    source: str
    licence: str
    facts: Facts
    best: Best

    @property
    def gap(self) -> float:
        """``peak / lower_bound - 1`` of the best known plan."""
        best = self.best
        return 0.0 if best.peak == best.lower_bound else best.peak / max(1, best.lower_bound) - 1

    @property
    def difficulty(self) -> Difficulty:
        """``easy``, ``hard`` or ``open``, by what proves the best known plan.

        An instance is open while its best known plan is above the best bound. It is easy if a
        greedy planner of Gapless reaches a bound that a planner has at once, and else hard.
        """
        best = self.best
        if best.peak > best.lower_bound:
            return "open"
        is_greedy = any(fnmatchcase(best.planner, pattern) for pattern in GREEDY.split(","))
        is_easy = is_greedy and bool(best.commit) and best.certificate in self.facts.bounds
        return "easy" if is_easy else "hard"

    @property
    def words(self) -> tuple[str, ...]:
        """The words that ``list --tag`` finds an instance by."""
        return (*self.tags, *self.kind.split(), self.difficulty)

    @property
    def fits(self) -> bool | None:
        """True if a plan fits the capacity; None if that is unknown or there is no capacity."""
        capacity = self.facts.capacity
        if capacity is None:
            return None
        if self.best.peak <= capacity:
            return True
        return False if self.best.lower_bound > capacity else None


# The fields of an entry's table in the order in which they are written.
_FIELDS = {
    "kind": str, "file": str, "committed": bool, "origin": str, "command": str, "made_with": str,
    "tags": list, "notes": str, "source": str, "licence": str, "digest": str, "tensors": int,
    "streams": int, "chains": int, "naive": int, "capacity": int, "optimum": int, "proof": str,
    "bounds": dict, "best": dict,
}  # fmt: skip
_DEFAULTS: dict[str, Any] = {
    "command": "", "made_with": "", "tags": [], "notes": "", "source": "", "licence": "",
    "capacity": None, "optimum": None, "proof": "",
}  # fmt: skip
_WORDS = {
    str: "a text", bool: "true or false", dict: "a table", list: "a list of texts",
    int: "a whole number of at least 0 that fits int64",
}  # fmt: skip


def entry_from_fields(name: str, fields: Any) -> CatalogueEntry:
    """Build an entry from the content of its table."""
    if not name.isprintable():
        raise InstanceError(f"instance {shown(name)}: a name of printable characters is needed")
    whole = _typed(name, "", fields, _FIELDS)
    best = _typed(name, "best.", whole.pop("best"), get_type_hints(Best))
    bounds = whole.pop("bounds")
    if whole["kind"] not in KINDS:
        _refuse(name, "kind", f"one of {', '.join(KINDS)}", whole["kind"])
    if best["status"] not in (Status.OPTIMAL.value, Status.FEASIBLE.value):
        _refuse(name, "best.status", "optimal or feasible", best["status"])
    file = whole["file"]
    is_plain = file.isprintable() and file not in ("", ".", "..") and "/" not in file
    if not is_plain or len(file.encode()) > MAX_NAME_BYTES:
        _refuse(name, "file", f"a name of 1 to {MAX_NAME_BYTES} bytes, without a folder,", file)
    facts = Facts(
        bounds=_typed(name, "bounds.", bounds, dict.fromkeys(bounds, int)),
        **{field: whole.pop(field) for field in get_type_hints(Facts) if field != "bounds"},
    )
    tags = tuple(whole.pop("tags"))
    return CatalogueEntry(name=name, facts=facts, best=Best(**best), tags=tags, **whole)


def entry_to_fields(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the content of an entry's table, without fields that are empty."""
    fields = {
        field: getattr(entry if hasattr(entry, field) else entry.facts, field) for field in _FIELDS
    }
    fields |= {
        "tags": list(entry.tags), "bounds": dict(entry.facts.bounds), "best": asdict(entry.best),
    }  # fmt: skip
    return {key: value for key, value in fields.items() if value not in (None, "", [])}


def _typed(entry: str, prefix: str, fields: Any, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of one table with defaults, once each is known to be of its kind."""
    if not isinstance(fields, dict):
        _refuse(entry, prefix.rstrip("."), "a table", fields)
    for field in sorted(fields.keys() - kinds.keys()):
        _refuse(entry, prefix + field, f"one of the fields {', '.join(sorted(kinds))}", field)
    found = {field: fields.get(field, _DEFAULTS.get(field)) for field in kinds}
    for field, kind in kinds.items():
        if field not in fields and field in _DEFAULTS:
            continue
        value: Any = found[field]
        wrong = [value] if type(value) is not kind else []
        if kind is int and not wrong and not 0 <= value <= INT64_MAX:
            wrong = [value]
        if kind is list and not wrong:
            wrong = [each for each in value if type(each) is not str]
        if wrong:
            _refuse(entry, prefix + field, _WORDS[kind], wrong[0])
    return found


def _refuse(entry: str, field: str, needed: str, found: object) -> NoReturn:
    found_there = "nothing" if found is None else shown(found)
    where = f"instance {entry}, field {field}" if field else f"instance {entry}"
    raise InstanceError(f"{where}: {needed} is needed, found {found_there}")
