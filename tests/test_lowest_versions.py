"""The lower limits of dependencies are the versions that CI runs the planners with."""

from __future__ import annotations

import re
import tomllib

from tests.repository import ROOT


def test_lower_limits_are_the_tested_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    limits = dict(need.split(",")[0].split(">=") for need in project["dependencies"])
    pins = re.findall(r"^([\w-]+)==(.+)$", (ROOT / "constraints-lowest.txt").read_text(), re.M)
    assert limits.keys() == dict(pins).keys()
    assert all(f"{pin}.".startswith(f"{limits[package]}.") for package, pin in pins)
