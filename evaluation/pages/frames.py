"""The records of a page as tables of a database in memory, and values of formulas over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import duckdb

from evaluation.pages.cases import Case
from evaluation.pages.record_rows import rows_of_cases, rows_of_page
from evaluation.pages.table_file import FrameText, named_tables, read_text, shared_file, texts_of
from planners.errors import InstanceError, errors_at

# Values of a group or a row by formula.
Values = Mapping[str, Any]

# Memory of all frames of a page, as the database reads it. The pages of this package need 20 MB.
MOST_MEMORY = "4GB"

# Fields of records that are mappings; ``statistics.seconds`` is a column of all runs, with unknown
# values if no run has it.
MAPPINGS = ("parameters", "statistics", "bounds", "settings")
_FIELD = re.compile(rf'\b({"|".join(MAPPINGS)})\."?(\w+)')


class Frames:
    """The frames of a page.

    Each has a column ``n``, the number of a row, and its rows stand in the order of ``n``: records
    in their order, and groups in the order of their first records.
    """

    def __init__(self, cases: Sequence[Case], words: Mapping[str, Any]) -> None:
        # Values such as the first one of a group depend on the order of rows, so there is one
        # thread. A study's file is data, and data reads and writes no other file.
        self._database = duckdb.connect(
            config={
                "threads": 1,
                "enable_external_access": False,
                "memory_limit": MOST_MEMORY,
                "temp_directory": "",
            }
        )
        # A quotient by 0 is unknown.
        for setting in ("ieee_floating_point_ops", "error_on_division_by_zero"):
            self._database.execute(f"SET {setting} = false")
        self._database.execute("SET lock_configuration = true")
        shared = shared_file()
        for macro in shared["macros"]:
            self._database.execute(f"CREATE MACRO {macro}")
        frames = named_tables("frames", words)
        text = "\n".join(texts_of([shared, dict(words)]))
        fields = {".".join(its.groups()) for its in _FIELD.finditer(text)}
        for name, rows in rows_of_cases(cases).items():
            self._add(name, rows, fields)
        for name, its in frames.items():
            with errors_at(f"page.frames.{name}"):
                self._make(name, read_text("", its, FrameText))

    def _make(self, name: str, text: FrameText) -> None:
        if text.sql:
            self.keep(name, text.sql)
        elif text.page:
            self._add(name, rows_of_page(text.page, text.heading))
        else:
            # TOML has no null value, so an empty text stands for an unknown value.
            rows = [[None if its == "" else its for its in row] for row in text.rows]
            self._add(name, [dict(zip(text.columns, row, strict=True)) for row in rows])

    def keep(self, name: str, sql: str) -> None:
        """Keep the answer to a query as a frame."""
        with _sql_errors():
            self._database.execute(
                f"CREATE OR REPLACE TABLE {quoted(name)} AS FROM ({sql}) ORDER BY n"
            )

    def values(
        self, frame: str, keys: Sequence[str], formulas: Iterable[str], *, is_grouped: bool = True
    ) -> list[tuple[tuple[Any, ...], Values]]:
        """Return the keys and the values of formulas for each group of rows, or for each row."""
        asked = list(dict.fromkeys(formulas))
        chosen = ", ".join([*keys, *(f"({its})" for its in asked), "1"])
        end = f"GROUP BY {', '.join(keys) or '()'} ORDER BY min(n)"
        with _sql_errors():
            answer = self._database.execute(
                f"SELECT {chosen} FROM {frame} {end if is_grouped else 'ORDER BY n'}"
            ).fetchall()
        count = len(keys)
        return [(row[:count], dict(zip(asked, row[count:-1], strict=True))) for row in answer]

    def rows_with(self, frame: str, column: str, value: object) -> str:
        """Return the rows of a frame with a value in a column, as a frame."""
        text = quoted(value, "'") if isinstance(value, str) else str(value)
        its = "NULL" if value is None else text
        return f"(FROM {frame} WHERE {column} IS NOT DISTINCT FROM {its})"

    def numbers(self, frame: str, wildcard: str) -> list[str]:
        """Return the names of columns of numbers that match and have a known value."""
        mapping, dot, _ = wildcard.rpartition(".")
        with _sql_errors():
            answer = self._database.execute(f"SELECT {mapping}{dot}* FROM {frame}")
            names = [f"{mapping}{dot}{each[0]}" for each in answer.description or ()]
            columns = zip(*answer.fetchall(), strict=True)
        kinds = [{type(value) for value in column} - {type(None)} for column in columns]
        return [
            name
            for name, its in zip(names, kinds, strict=False)
            if its and its <= {int, float} and fnmatchcase(name, wildcard)
        ]

    def has_column(self, frame: str, name: str) -> bool:
        """Return True if a frame has a column."""
        answer = self._database.execute(f"FROM {frame} LIMIT 0")
        return name in (each[0] for each in answer.description or ())

    def _add(
        self, name: str, rows: Sequence[Mapping[str, Any]], fields: Iterable[str] = ()
    ) -> None:
        """Add rows, and columns without known values for the other fields."""
        lines = [{"n": number, **row} for number, row in enumerate(rows)]
        types = _type_of("", lines)
        for field in fields:
            mapping, _, key = field.partition(".")
            types[mapping].setdefault(key, _type_of(field, []))
        types = {key: its for key, its in types.items() if its}
        # Names of fields are foreign text.
        form = quoted(json.dumps([types]), "'")
        with _sql_errors():
            self._database.execute(
                f"CREATE OR REPLACE TABLE {quoted(name)} AS "
                f"SELECT unnest(from_json(?, {form}), max_depth := 2)",
                [json.dumps(lines, default=str)],
            )


def _type_of(name: str, values: Sequence[Any]) -> Any:
    """Return the type of a column in the database; of mappings, the types of their values."""
    known = [value for value in values if value is not None]
    kinds = set(map(type, known))
    if kinds == {dict}:
        # The database does not tell capitals from small letters.
        keys = {key.casefold(): key for its in known for key in its}.values()
        below = f"{name}." if name else ""
        return {key: _type_of(below + key, [its.get(key) for its in known]) for key in keys}
    if not kinds:
        return "VARCHAR" if name in shared_file()["texts"] else "DOUBLE"
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def quoted(text: str, quote: str = '"') -> str:
    """Return a name, or in single quotes a text, as SQL has it."""
    return quote + text.replace(quote, 2 * quote) + quote


@contextmanager
def _sql_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise InstanceError(" ".join(str(error).split("\n\nLINE")[0].split())) from None
