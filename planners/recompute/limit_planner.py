"""The registry of planners that keep a step within a limit, and what each is asked and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from planners.errors import UnknownPlannerError
from planners.first_use import at_first_use
from planners.model.budget import Budget
from planners.model.problem import Scalar
from planners.recompute.repeatable_step import Choice, RepeatableStep, Sequence32
from planners.recompute.staged_relaxation import StagedBound
from planners.registry import PLUGGABLE, Registry, UnsupportedProblemError, module_of
from planners.text.plain_text import text_of

# These modules register the budget planners of this package.
BUILT_IN_MODULES = tuple(
    f"planners.recompute.{name}"
    for name in ("published", "greedy_repeats", "knapsacks", "local_search", "exact_planner")
)

TIME_IS_OVER = "the time limit passed before a choice met the limit"
NOTHING_MET = "no choice that was tried meets the limit"


@dataclass(frozen=True, eq=False)
class LimitQuestion:
    """A step, and the most bytes of tensors that may be live at once.

    Parameters
    ----------
    step
        The step as it is.
    limit
        Bytes.
    budget
        Time, seed and threads.
    bound
        A lower bound on the seconds more, with its relaxed optimum.
    known
        The fastest sequence within the limit of the planners that this one starts from, if any.
    """

    step: RepeatableStep
    limit: int
    budget: Budget
    bound: StagedBound
    known: Sequence32 | None = None

    def answer(self, choice: Choice | None) -> LimitAnswer:
        """Return the answer that makes this choice, everything as late as possible.

        Without a choice it says why there is none: the time is over, or nothing met the limit.
        """
        if choice is not None:
            return LimitAnswer(self.step.late_sequence(choice))
        is_over = self.budget.remaining_seconds() == 0
        return LimitAnswer(None, TIME_IS_OVER if is_over else NOTHING_MET)

    def require_time(self) -> None:
        """Raise ``TimeoutError`` if the time is over; for loops that have no choice yet."""
        if self.budget.remaining_seconds() == 0:
            raise TimeoutError(TIME_IS_OVER)

    def is_met(self, choice: Choice) -> bool:
        """Return True if this choice has at most the limit of live bytes."""
        return self.step.cost(choice, self.limit)[1] <= self.limit


@dataclass(frozen=True, eq=False)
class LimitAnswer:
    """The answer of a planner to a question.

    Parameters
    ----------
    sequence
        Nodes and copies in the order in which they run; None if the planner found none within the
        limit.
    reason
        Why there is none, or what was left undone.
    least_seconds, certificate
        A proven lower bound on the seconds more, and the name of its proof; infinite
        seconds say that nothing is within the limit.
    statistics
        Counters of the search.
    interrupted
        True if Ctrl-C ended the planner, which kept its best sequence. A third party's planner may
        say so falsely, so only a planner of this package ends a frontier by it.
    """

    sequence: Sequence32 | None
    reason: str = ""
    least_seconds: float = 0.0
    certificate: str = ""
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    interrupted: bool = False


class UnsupportedStepError(UnsupportedProblemError):
    """The planner does not answer such steps; the message says why."""


Answerer = Callable[[LimitQuestion], LimitAnswer]


@dataclass(frozen=True)
class LimitPlanner:
    """A registered planner: its name, one line on what it does, and where it was published.

    It is asked after the planners that it starts from, and never answers less than they do.
    """

    name: str
    summary: str
    source: str
    answer: Answerer
    # The module that defines the planner.
    module: str = ""
    starts_from: tuple[str, ...] = ()
    # False for a planner that runs only if it is named, because it takes long.
    by_default: bool = True

    @property
    def built_in(self) -> bool:
        """Return True if the planner came with this package: its proofs hold for other planners."""
        return self.module in BUILT_IN_MODULES


LIMIT_PLANNERS: Registry[LimitPlanner] = Registry("budget planner", UnknownPlannerError)
PLUGGABLE.append(LIMIT_PLANNERS)


def register(
    name: str,
    *,
    summary: str,
    source: str = "",
    starts_from: Sequence[str] = (),
    by_default: bool = True,
) -> Callable[[Answerer], Answerer]:
    """Register a function as a planner that keeps a step within a limit.

    Parameters
    ----------
    name
        A free name, as on the command line.
    summary
        One line on what the planner does.
    source
        The paper or library that describes the planner.
    starts_from
        Names of planners that are asked first, within the same time. The planner is given the best
        sequence of theirs, which is its answer if it finds none that is faster.
    by_default
        False for a planner that takes long: it runs only if it is named.

    Returns
    -------
    Callable
        A decorator of a function from :class:`LimitQuestion` to :class:`LimitAnswer`. A question
        that the function does not support raises :class:`UnsupportedStepError`.
    """

    def decorate(answer: Answerer) -> Answerer:
        module = module_of(answer)
        if module not in BUILT_IN_MODULES:
            load_built_in()  # first, so that no other planner can take their names
        words = text_of(summary), text_of(source)
        planner = LimitPlanner(name, *words, answer, module, tuple(starts_from), by_default)
        LIMIT_PLANNERS.add(name, planner)
        return answer

    return decorate


@at_first_use
def load_built_in() -> None:
    """Register, once, the planners of this package."""
    for module in BUILT_IN_MODULES:
        import_module(module)
