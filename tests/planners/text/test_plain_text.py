"""Text from outside, made fit to print."""

from __future__ import annotations

import sys

import pytest

from planners.text.plain_text import describe_error, one_line, text_of


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("plain, with ünïcode and 名前", "plain, with ünïcode and 名前"),
        ("two\nlines\r\n\tand  a\x0btab\u2028line\u2029", "two lines and a tab line"),
        ("\x1b[31mred\x1b[0m \x1b[2Jand \x9b1mbold", "red and bold"),
        ("\x1b]0;a new title\x07here \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "here link"),
        ("\x1b(0 and \x1bc and \x1b", "and and"),
        ("\u202egnp.exe\u202c \u2066isolated\u2069 \u200bwide", "gnp.exe isolated wide"),
        ("null \x00 bell \x07 back \x08 delete \x7f", "null bell back delete"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("", ""),
    ],
)
def test_one_line(text: str, plain: str) -> None:
    assert one_line(text) == plain


def test_every_character_gives_text_that_prints() -> None:
    for code in (*range(0x3001), *range(0xD800, 0xF900, 64), *range(0xFE00, sys.maxunicode, 999)):
        assert one_line(f"a{chr(code)}b").isprintable()
    assert one_line("a\x1b[31;" * 1000).isprintable()


def test_what_is_long_is_cut() -> None:
    assert one_line("x" * 1000) == "x" * 1000
    assert one_line("x" * 1001) == "x" * 997 + "..."
    assert one_line("xy" * 10, most=10) == "xyxyxyx..."
    assert len(one_line("\x1b[31m" * 10**6)) == 3  # nothing that prints, and cut


def test_no_method_of_a_subclass_runs() -> None:
    class Hostile(str):
        def __getitem__(self, _key: object) -> str:
            raise AssertionError

        __len__ = __iter__ = __str__ = __format__ = __getitem__  # type: ignore[assignment]

    plain = one_line(Hostile("x\ny"))
    assert (plain, type(plain)) == ("x y", str)
    assert text_of(Hostile("z")) == "z"


def test_an_error_that_does_not_say_what_it_is() -> None:
    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise SystemExit

    class SilentError(Exception, metaclass=Meta):
        def __str__(self) -> str:
            raise GeneratorExit

    assert describe_error(SilentError()) == "SilentError: an object that does not say what it is"
    assert describe_error(ValueError("a\nb")) == "ValueError: a b"
    assert describe_error(GeneratorExit()) == "GeneratorExit"
