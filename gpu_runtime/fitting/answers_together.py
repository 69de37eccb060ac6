"""Calls that run at the same time, each in a process of its own, and begin one another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from threading import Thread
from typing import Any

from planners.errors import GaplessError, errors_at
from planners.processes.isolated_process import answer_apart

Begin = Callable[[int], None]


def answers_together(
    name: str,
    first: int,
    call: Callable[[int, Begin], Mapping[str, Any]],
    kinds: Mapping[str, type],
) -> dict[int, dict[str, Any]]:
    """Answer a call for a number, and for each further number that a call asks to begin.

    The first error ends all of them. Threads wait for the processes, within a process that ends
    with this one; so Ctrl-C, which only the main thread hears, ends all of them too.
    """

    def conduct() -> dict[str, Any]:
        reader, writer = os.pipe()
        ended: list[tuple[int, dict[str, Any] | GaplessError]] = []

        def tell(number: int | str) -> None:
            os.write(writer, f"{number}\n".encode())

        def run(number: int) -> None:
            try:
                with nullcontext() if number == first else errors_at(f"rank {number}"):
                    ended.append((number, answer_apart(name, partial(call, number, tell), kinds)))
            except GaplessError as error:
                ended.append((number, error))
            tell("")

        begun: set[int] = set()
        tell(first)
        with os.fdopen(reader) as lines:
            for line in map(str.strip, lines):
                if line and int(line) not in begun:
                    begun.add(int(line))
                    Thread(target=run, args=(int(line),), daemon=True).start()
                for _, answer in ended:
                    if isinstance(answer, GaplessError):
                        raise answer
                if len(ended) == len(begun):
                    break
        return {"answers": ended}

    return dict(sorted(answer_apart(name, conduct, {"answers": list})["answers"]))
