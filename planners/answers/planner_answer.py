"""Calls a planner, and turns its answer into findings, or refuses the answer with a reason.

A planner is Python code like any other. Only a planner in a process of its own may be hostile: its
answer is bytes, which are read as findings and pass through the same checks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from planners.errors import GaplessError, MissingDependencyError
from planners.model.budget import Budget
from planners.model.columns import INT64_MAX, is_whole
from planners.model.findings import Findings
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem, Scalar
from planners.processes.interrupt import Interrupt
from planners.registry import ChosenPlanner, UnsupportedProblemError
from planners.text.plain_text import describe_error, one_line, shown, text_of

OnError = Callable[[BaseException], object]
Answer = TypeVar("Answer")

MOST_STATISTICS = 1000
MOST_INCUMBENTS = 10_000
# The beginning of the reason of a planner that ran out of memory.
OUT_OF_MEMORY = "out of memory"
MOST_NAME_CHARACTERS = 100


class MalformedAnswerError(Exception):
    """The answer of a planner cannot be judged; the message says what would be right."""


def answer_of(
    chosen: ChosenPlanner, problem: Problem, budget: Budget, on_error: OnError = lambda _error: None
) -> Findings:
    """Call a planner, and return its answer, or the reason of its failure, as findings."""
    offers = _Offers(problem)

    def asked() -> Findings:
        plan = chosen.info.build(**chosen.parameters)
        if chosen.info.built_in:
            return take_in(problem, plan(problem, budget))
        answer = plan(problem, replace(budget, on_offer=offers.take))
        return offers.joined(take_in(problem, answer))

    try:
        found = called(asked, on_error)
    except KeyboardInterrupt:
        if offers.best is None:
            raise
        return offers.joined(Findings(interrupted=True))
    return offers.joined(found) if found.claimed is None else found


def called(
    call: Callable[[], Answer], on_error: OnError = lambda _error: None
) -> Answer | Findings:
    """Call a planner of any kind; return what it returns, or why it failed as findings."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except (UnsupportedProblemError, MissingDependencyError) as error:
        return Findings(reason=text_of(error), claimed=Status.UNSUPPORTED)
    except TimeoutError as error:
        return Findings(reason=text_of(error) or describe_error(error))
    except MemoryError as error:
        return Findings(reason=f"{OUT_OF_MEMORY}: {text_of(error)}")
    except MalformedAnswerError as error:
        return Findings(reason=text_of(error), claimed=Status.INVALID)
    except BaseException as error:
        if Interrupt.has_come():
            raise KeyboardInterrupt from error
        # A third party's planner may fail in any way; the other planners go on.
        on_error(error)
        # An error of ours is one sentence, and needs no name of its class.
        reason = text_of(error) if isinstance(error, GaplessError) else describe_error(error)
        return Findings(reason=reason, claimed=Status.INVALID)


class _Offers:
    """The best of the plans that a planner offers, and when each that was better came."""

    def __init__(self, problem: Problem) -> None:
        self.best: Plan | None = None
        self._problem = problem
        self._begun = time.perf_counter()
        self._incumbents: list[tuple[float, int]] = []

    def take(self, offered: object) -> None:
        if not isinstance(offered, Plan):
            raise MalformedAnswerError(f"a planner offers a Plan, found {_kind(offered)}")
        _require_offsets(self._problem, offered)
        if self.best is None or offered.peak < self.best.peak:
            self.best = offered
            if len(self._incumbents) < MOST_INCUMBENTS:
                self._incumbents.append((time.perf_counter() - self._begun, offered.peak))

    def joined(self, found: Findings) -> Findings:
        """Return findings with the best offer if they have no plan, and with the offers' curve."""
        plan = self.best if found.plan is None else found.plan
        return replace(found, plan=plan, incumbents=found.incumbents or tuple(self._incumbents))


def take_in(problem: Problem, answer: object) -> Findings:
    """Return a planner's answer as findings, whose text is one line each."""
    found = _as_findings(answer)
    plan = found.plan
    if plan is not None and not isinstance(plan, Plan):
        raise MalformedAnswerError(f"a result has a planners.Plan or None, found {_kind(plan)}")
    if plan is None and found.claimed in (Status.OPTIMAL, Status.FEASIBLE):
        raise MalformedAnswerError(f"a result that is {found.claimed.value} needs a plan")
    if plan is not None:
        _require_offsets(problem, plan)
    return replace(
        found,
        lower_bound=byte_count("a lower bound", found.lower_bound),
        certificate=line_of("a certificate", found.certificate, MOST_NAME_CHARACTERS),
        cost_bound=_natural("a bound on the cost", found.cost_bound),
        cost_certificate=line_of("a certificate", found.cost_certificate, MOST_NAME_CHARACTERS),
        reason=line_of("a reason", found.reason),
        interrupted=_truth("interrupted", found.interrupted),
        statistics=figures(found.statistics),
        incumbents=_incumbents(found.incumbents),
    )


def plain_parameters(parameters: Mapping[str, object]) -> dict[str, Scalar]:
    """Return a planner's parameters as scalars; a third party may have any object as a default."""
    return {one_line(key, MOST_NAME_CHARACTERS): _plain(value) for key, value in parameters.items()}


def _as_findings(answer: object) -> Findings:
    if isinstance(answer, Findings):
        return answer
    if isinstance(answer, Plan):
        return Findings(answer)
    if not isinstance(answer, Result):
        raise MalformedAnswerError(f"a planner returns a Plan or a Result, found {_kind(answer)}")
    if not isinstance(answer.status, Status):
        raise MalformedAnswerError(
            f"a result has a status of planners.Status, found {_of(answer.status)}"
        )
    return Findings(
        answer.plan, answer.lower_bound, answer.certificate, answer.reason, answer.interrupted,
        answer.statistics, answer.status, cost_bound=answer.cost_bound,
        cost_certificate=answer.cost_certificate,
    )  # fmt: skip


def _require_offsets(problem: Problem, plan: Plan) -> None:
    if len(plan.offsets) != problem.tensor_count:
        raise MalformedAnswerError(
            f"one offset a tensor is needed, found {len(plan.offsets)} for {problem.tensor_count}"
        )


def byte_count(what: str, value: object) -> int:
    """Return a number of bytes as Python's integer, or refuse the answer."""
    return _natural(what, value, " of bytes")


def _natural(what: str, value: object, unit: str = "") -> int:
    if is_whole(value):
        return int(value)
    raise MalformedAnswerError(
        f"{what} is a whole number{unit} from 0 to 2**63 - 1, found {_of(value)}"
    )


def _truth(what: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise MalformedAnswerError(f"{what} is true or false, found {_of(value)}")
    return bool(value)


def line_of(what: str, value: object, most: int | None = None) -> str:
    """Return a text on one line, or refuse the answer."""
    if not isinstance(value, str):
        raise MalformedAnswerError(f"{what} is a string, found {_of(value)}")
    return one_line(value) if most is None else one_line(value, most)


def _incumbents(incumbents: Any) -> tuple[tuple[float, int], ...]:
    told = islice(incumbents, MOST_INCUMBENTS)
    pairs = [(float(seconds), byte_count("a peak", peak)) for seconds, peak in told]
    if not all(0 <= seconds < math.inf for seconds, _ in pairs):
        raise MalformedAnswerError("an incumbent has seconds from 0 on, and finite ones")
    return tuple(pairs)


def figures(statistics: object) -> dict[str, Scalar]:
    """Return statistics as scalars by name, or refuse the answer."""
    if not isinstance(statistics, Mapping):
        raise MalformedAnswerError(f"statistics are a mapping, found {_of(statistics)}")
    plain = {}
    for key in islice(statistics, MOST_STATISTICS):
        value = statistics[key]
        name = line_of("a name in statistics", key, MOST_NAME_CHARACTERS)
        if not isinstance(value, (str, int, float, np.generic)):
            raise MalformedAnswerError(
                f"statistics, {name}: a string, a number or a boolean is needed, found {_of(value)}"
            )
        plain[name] = _plain(value)
    return plain


def _plain(value: object) -> Scalar:
    """Return a value as a scalar of Python, or as text if it is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is int:
        return value if abs(value) <= INT64_MAX else shown(value)
    return text_of(value)


def _kind(value: object) -> str:
    return one_line(type(value).__name__, MOST_NAME_CHARACTERS)


def _of(value: object) -> str:
    return one_line(shown(value), MOST_NAME_CHARACTERS)
