"""Settings of a trace are checked once."""

from __future__ import annotations

from typing import Any

import pytest

from instances.extract.record.trace_settings import TraceSettings
from planners.errors import InstanceError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "setting steps: at least 1, found 0"),
        ({"microbatches": -1}, "setting microbatches: at least 1, found -1"),
        ({"precision": "bfloat"}, "no precision is called 'bfloat'; did you mean 'bfloat16'"),
        ({"optimizer": "adam"}, "no optimizer is called 'adam'; did you mean 'adamw'?"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InstanceError, match=message):
        TraceSettings(**changes)


def test_autocast_keeps_weights_in_float32() -> None:
    assert TraceSettings().weights_precision == "float32"
    assert TraceSettings(precision="bfloat16").weights_precision == "bfloat16"
