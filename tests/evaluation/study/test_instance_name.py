"""The name of an instance says the settings that it has."""

from __future__ import annotations

import pytest

from evaluation.study.recording_part import name_with, settings_in


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", {}),
        ("A.12.csv", {"capacity": "12", "variation": "smaller", "seed": "1"}),
        ("a=b.csv", {"capacity": "12"}),
        ("C:files", {"seed": "0"}),
    ],
)
def test_settings_are_read_as_they_were_written(name: str, settings: dict[str, str]) -> None:
    assert settings_in(name_with(name, settings)) == (name, settings)
