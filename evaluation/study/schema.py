"""The JSON schemas of records and of study files, generated from their types."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from evaluation.study.record import AnyRecord
from evaluation.study.study import StudyFile


class Typed(enum.StrEnum):
    """What has a schema."""

    RECORD = "record"
    STUDY = "study"


def schema_of(what: Typed) -> dict[str, Any]:
    """Return the JSON schema of a record, or of a study's file, which is TOML."""
    schema = msgspec.json.schema(AnyRecord if what is Typed.RECORD else StudyFile)
    for its in schema["$defs"].values():
        # Which kind a choice of instances is of is seen by its other keys.
        if "choice" in its.get("required", ()):
            its["required"].remove("choice")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
