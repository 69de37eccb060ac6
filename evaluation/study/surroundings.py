"""The machine, the versions of packages and the commit of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from evaluation.study.record import Machine
from instances.catalogue.update import git_commit
from planners.version import version_of

CPU_INFO = Path("/proc/cpuinfo")


def processor() -> str:
    """Return the name of the processor; where the system tells none, its architecture."""
    with suppress(OSError):  # some containers have no /proc
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


# Packages that may decide an answer; a record has the versions of the installed ones.
PACKAGES = ("gapless", "numpy", "scipy", "ortools", "pulp", "omnimalloc")


@cache
def this_machine() -> Machine:
    """Return the properties of this machine on which times depend."""
    return Machine(
        processor=processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
    )


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {package: version_of(package) for package in PACKAGES}
    return {
        "python": platform.python_version(),
        **{package: version for package, version in found.items() if version is not None},
    }


@cache
def commit() -> str | None:
    """Return the commit, marked if sources differ from it, or None if they are not a checkout."""
    found = git_commit("instances", "gpu_runtime", "evaluation", ":!evaluation/records")
    return None if found == "unknown" else found
