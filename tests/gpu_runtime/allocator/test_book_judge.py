"""Which programs get a book, and which books go."""

from __future__ import annotations

from gpu_runtime.allocator.book_judge import (
    FIRST_PAUSE,
    JUDGED_STEPS,
    RECENT_STEPS,
    TOO_MANY,
    TOO_MANY_AGAIN,
    TOO_MANY_WASTEFUL,
    BookJudge,
)


def judge_after(known: str, unlike: str = "", wasteful: str = "", least: int = 1) -> BookJudge:
    """Return one that saw a step a letter; ``x`` where it is so."""
    judge, fallback = BookJudge(), 0
    for step, letter in enumerate(known):
        fallback += 20 if unlike[step : step + 1] == "x" else least
        judge.saw(
            is_known=letter == "x",
            fallback_bytes=fallback,
            step_bytes=100 * (step + 1),
            is_wasteful=wasteful[step : step + 1] == "x",
        )
    return judge


def test_a_second_step_like_the_first_is_enough() -> None:
    assert not judge_after("").may_plan
    assert not judge_after(".").may_plan
    assert judge_after(".x").may_plan
    assert judge_after("..x").may_plan


def test_half_of_the_last_steps_have_to_be_known() -> None:
    assert RECENT_STEPS == 4
    assert not judge_after("...x").may_plan
    assert judge_after("..xx").may_plan
    assert judge_after("xxxx..").may_plan
    assert not judge_after("xxxx...").may_plan


def test_a_book_that_most_steps_are_unlike_is_in_the_way() -> None:
    few, many = "x" * (TOO_MANY - 1), "x" * TOO_MANY
    assert not judge_after(few, few).is_in_the_way
    assert judge_after(many, many).is_in_the_way
    later = many + "." * (JUDGED_STEPS - TOO_MANY + 1)
    assert not judge_after(later, later).is_in_the_way


def test_the_book_after_one_that_was_dropped_has_to_serve_better() -> None:
    judge = judge_after("x" * TOO_MANY, "x" * TOO_MANY)
    judge.pause()
    assert TOO_MANY_AGAIN < TOO_MANY
    for step in range(TOO_MANY_AGAIN):
        assert not judge.is_in_the_way
        judge.saw(
            is_known=True,
            fallback_bytes=20 * (TOO_MANY + step + 1),
            step_bytes=100 * (TOO_MANY + step + 1),
        )
    assert judge.is_in_the_way


def test_a_book_beside_which_memory_is_taken_is_in_the_way_sooner() -> None:
    few, many = "x" * (TOO_MANY_WASTEFUL - 1), "x" * TOO_MANY_WASTEFUL
    assert TOO_MANY_WASTEFUL < TOO_MANY
    assert not judge_after(few, wasteful=few).is_in_the_way
    judge = judge_after(many, wasteful=many)
    assert judge.is_in_the_way
    judge.pause()
    assert not judge.is_in_the_way
    # What is not for want of a place is not the book's fault.
    assert not judge_after(many, wasteful=many, least=0).is_in_the_way


def test_a_book_that_is_about_to_go_is_not_to_blame() -> None:
    judge = BookJudge()
    for step in range(JUDGED_STEPS):
        judge.saw(
            is_known=True,
            fallback_bytes=20 * (step + 1),
            step_bytes=100 * (step + 1),
            is_wasteful=True,
            is_outdated=True,
        )
    assert not judge.is_in_the_way


def test_after_a_pause_it_is_tried_again_and_each_pause_is_longer() -> None:
    judge = judge_after("xxxx", "xxxx")
    for pause in (FIRST_PAUSE, 2 * FIRST_PAUSE):
        judge.pause()
        assert not judge.is_in_the_way
        steps = 0
        while not judge.may_plan:
            judge.saw(is_known=True, fallback_bytes=10**6, step_bytes=10**9)
            steps += 1
        assert steps == pause


def test_counts_may_begin_again() -> None:
    judge = judge_after("xx")
    judge.reset_counts()
    for step in range(JUDGED_STEPS):
        judge.saw(is_known=True, fallback_bytes=20 * (step + 1), step_bytes=100 * (step + 1))
    assert judge.is_in_the_way


def test_memory_little_above_what_ever_lived() -> None:
    assert BookJudge.is_little_above(10 << 30, 10 << 30)
    assert BookJudge.is_little_above(21 << 29, 10 << 30)
    assert not BookJudge.is_little_above(11 << 30, 10 << 30)
    # Of so little nobody would gain.
    assert BookJudge.is_little_above(90 << 20, 50 << 20)
