"""Formulas over a frame: what is unknown stays so, and what is wrong is named."""

from __future__ import annotations

from typing import Any

import pandas
import pytest

from evaluation.tables.expression import Expression, is_known
from planners.errors import InstanceError

FRAME = pandas.DataFrame({
    "who": ["a", "a", "b"], "peak": [4.0, None, 8.0], "bound": [4.0, 2.0, 0.0],
    "parameters.fast": [True, False, True], "parameters.fit": ["x", "x", "y"],
    "statistics.one_calls": [1, 2, 3], "statistics.two_calls": [10, 20, 30],
    "instance": ["i:tensors=5:seed=1", "i:tensors=6:seed=1", "j.npz"],
})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * 3 - 4 / 8", 5.5),
        ("max(peak) / min(bound[who == 'a'])", 4.0),
        ("peak[who == 'b']", 8.0),
        ("peak[who in ['b', 'c'] or bound == 4]", 4.0),
        ("count(peak)", 2),
        ("count(not known(peak))", 1),
        ("count(peak > 4 and bound < 1)", 1),
        ("max(whole(bound))", 4.0),
        ("listed(who)", "a, b"),
        ("tally(who)", "a (2); b (1)"),
        ("tally(who[who == 'b'])", "b"),
        ("distinct(who)", 2),
        ("last(peak)", 8.0),
        ("known(missing, 7)", 7),
        ("sum(known(peak, 1))", 13.0),
        ("sum(where(who == 'a', 1, 10))", 12),
        ("sum(within(count(who), who))", 5),
        ("max(min(bound), 1)", 1.0),
        ("'high' if max(peak) > 7 else 'low'", "high"),
        ("max(total_of('statistics.*_calls'))", 33),
        ("column('statistics.' + 'two' + '_calls')", 10),
        ("listed(names_of('parameters.*', False))", ", fast"),
        ("last(differing('parameters.*'))", "fit=y"),
        ("but_settings(instance, 'tensors', 'seed')", "i"),
        ("last(without(instance, '.npz'))", "j"),
        ("count(like(instance, 'i:*'))", 2),
        ("count(peak[True])", 2),
        ("count(peak[1 > 2])", 0),
        ("statistics.nobody_counts_this", None),
        ("max(peak[who == 'nobody'])", None),
        ("max(whole(peak))", None),
        ("max(peak[who == 'b']) / max(bound[who == 'b'])", None),
        ("max(peak) if missing else missing", None),
    ],
)
def test_a_formula_has_a_value(text: str, value: Any) -> None:
    found = Expression.read(text).one(FRAME)
    assert found == value if value is not None else not is_known(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("peek", r"no column is called 'peek'; .*peak"),
        ("medain(peak)", r"no function is called 'medain'; .*median"),
        ("peak +", r"'peak \+' is no formula"),
        ("peak.__class__", r"no column is called 'peak.__class__'"),
        ("(lambda: 1)()", r".* is not allowed in a formula"),
        ("__import__('os')", r"no function is called '__import__'"),
        ("[x for x in peak]", r".* is not allowed in a formula"),
        ("round()", r"'round\(\)' has no value: "),
        ("peak + who", r"'peak \+ who' has no value: "),
        ("like(3, 'a')", r".* has no value: "),
        ("peak ** 2", r"'peak \*\* 2' is not allowed"),
    ],
)
def test_what_is_no_formula_is_named(text: str, says: str) -> None:
    with pytest.raises(InstanceError, match=says):
        Expression.read(text).one(FRAME)
