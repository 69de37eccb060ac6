"""What the tests of the trainers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.gpu_runtime.integrations.recorded_memory import RecordedMemory


@pytest.fixture
def memory() -> RecordedMemory:
    """Return planned memory that writes down the steps of a loop."""
    from tests.gpu_runtime.integrations.recorded_memory import RecordedMemory

    return RecordedMemory()
