"""What part of a recording is asked for: options, their names, and what they may not say."""

from __future__ import annotations

import pytest

from planners.errors import GaplessError
from planners.files.recording_slice import RecordingSlice, parse_iteration


@pytest.mark.parametrize(
    ("text", "iteration"), [("all", None), ("last", -1), ("0", 0), ("12", 12), ("-2", -2)]
)
def test_an_iteration_is_a_word_or_a_number(text: str, iteration: int | None) -> None:
    assert parse_iteration(text) == iteration


@pytest.mark.parametrize("text", ["", "-", "first", "1.0", "1_0", "--1", "+1", "٣", "9" * 5000])
def test_another_word_is_refused_as_iteration(text: str) -> None:
    with pytest.raises(GaplessError, match="--iteration: 'all', 'last', or a whole number"):
        parse_iteration(text)


def test_a_slice_names_the_options_that_made_it() -> None:
    assert RecordingSlice().options == ()
    asked = RecordingSlice(0, persistent=False, round_to=512, dynamic_modules=("*.experts.*",))
    assert asked.options == (
        "--iteration", "--no-persistent", "--round-to", "--dynamic-modules",
    )  # fmt: skip


def test_dynamic_modules_of_all_iterations_are_refused() -> None:
    with pytest.raises(GaplessError, match=r"--dynamic-modules: .* --iteration"):
        RecordingSlice(dynamic_modules=("a",))


@pytest.mark.parametrize("round_to", [-1, 0, (1 << 40) + 1, 1 << 63, 10**30, 10**400])
def test_a_rounding_that_fits_no_size_is_refused(round_to: int) -> None:
    with pytest.raises(GaplessError, match=r"^--round-to: sizes are multiples of 1 to \d+ .*found"):
        RecordingSlice(round_to=round_to)
