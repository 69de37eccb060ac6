"""The generated schemas accept what ships, and refuse what the readers refuse."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from evaluation.study.study_file import Typed, schema_of, studies
from tests.evaluation.study.made_up_records import record
from tests.evaluation.study.test_record import RECORD

STUDY = Draft202012Validator(schema_of(Typed.STUDY))
ONE_RECORD = Draft202012Validator(schema_of(Typed.RECORD))


@pytest.mark.parametrize("path", studies().values(), ids=lambda path: path.stem)
def test_every_study_meets_the_schema(path: Path) -> None:
    STUDY.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("made", [
    RECORD, record("a", "vpmm", kind="online"), record("a", "planned", kind="fit", measured=True),
])  # fmt: skip
def test_a_record_of_each_kind_meets_the_schema(made: object) -> None:
    line = json.loads(made.to_json())  # type: ignore[attr-defined]
    ONE_RECORD.validate(line)
    for change in ({"peek": 1}, {"kind": "both"}, {"seed": -1}, {"status": "optimum"}):
        with pytest.raises(ValidationError):
            ONE_RECORD.validate(line | change)
