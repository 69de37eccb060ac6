"""How many examples a property is tried on, and how many processes share the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from random import SystemRandom

import pytest
from hypothesis import settings

# "few" is the default, and CI takes "many". The numbers are guesses. No machine is too slow for an
# example.
settings.register_profile("few", max_examples=30, deadline=None)
settings.register_profile("many", max_examples=100, deadline=None)
settings.load_profile("few")

MOST_PROCESSES = 8


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Spread the whole suite over the cores where nothing else is asked for (see ``-n``)."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if not is_whole or not config.pluginmanager.hasplugin("xdist") or config.option.usepdb:
        return
    if config.option.numprocesses is None and not hasattr(config, "workerinput"):
        config.option.numprocesses = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
        config.option.dist = "loadgroup"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Let Ctrl-C be heard by tests and what they start, also where ``nohup`` has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def _disk_is_not_waited_for() -> Iterator[None]:
    """No file of a test has to outlive the machine, and a disk under load takes seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _descriptor: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process has the GPU to itself."""
    for item in items:
        if any(map(item.get_closest_marker, ("gpu", "gpus", "four_gpus"))):
            item.add_marker(pytest.mark.xdist_group("gpu"))


@pytest.fixture
def own_registry() -> Iterator[None]:
    """Forget at the end what a test registers."""
    from planners import registry
    from planners.recompute import choose_planners

    # All that is known is there before.
    registry.planners()
    registry.choose_online("*")
    choose_planners("*")
    before = [dict(known) for known in registry.PLUGGABLE]
    yield
    for known, entries in zip(registry.PLUGGABLE, before, strict=False):
        known.clear()
        known.update(entries)


@pytest.fixture
def fresh_seed() -> int:
    """Return another seed in each run, which is printed where the test fails."""
    seed = SystemRandom().randrange(1 << 31)
    print(f"seed {seed}")
    return seed
