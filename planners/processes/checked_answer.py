"""The answer of code that a user wrote, which may end or confuse the process that it runs in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any

from planners.command_line import standard_output
from planners.errors import GaplessError, InstanceError
from planners.processes.isolated_process import Ended, call_isolated
from planners.text.plain_text import describe_error, shown

MOST_ANSWER_BYTES = 1 << 20


def answer_apart(
    name: str, call: Callable[[], Mapping[str, Any]], kinds: Mapping[str, type | UnionType]
) -> dict[str, Any]:
    """Run a call in a process of its own; return its answer, whose fields are of these kinds.

    Note: a user's file may end its process, close or write to any descriptor, fork, or replace
    what Python brings. So the process says at its end that it answers, over a pipe of its own;
    whatever else happens is an ``InstanceError``.
    """

    def in_the_child() -> bytes:
        standard_output.leave_to_the_parent()
        try:
            said = call()
            return json.dumps(said).encode()
        except GaplessError as error:
            return json.dumps({"error": str(error)}).encode()
        except Exception as error:
            return json.dumps({"error": f"{name}: {describe_error(error)}"}).encode()

    sent = call_isolated(in_the_child, most_bytes=MOST_ANSWER_BYTES)
    if isinstance(sent, Ended):
        raise InstanceError(f"{name}: its process {sent.how}")
    try:
        found = json.loads(sent)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() == {"error"}:
        kinds = {"error": str}
    if (
        not isinstance(found, dict)
        or found.keys() != kinds.keys()
        or not all(isinstance(found[key], kind) for key, kind in kinds.items())
    ):
        raise InstanceError(f"{name}: its process sent what is no answer, found {shown(sent)}")
    if "error" in found:
        raise InstanceError(found["error"])
    return found
