"""Planners of a study's own files, registered wherever a run of it is made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from evaluation.study.study import Plugin
from planners.registry import load_plugin

_loaded: set[Plugin] = set()
# A worker may run in several threads.
_lock = Lock()


def load_plugins(plugins: Iterable[Plugin]) -> None:
    """Register what plugins bring, each once in a process."""
    with _lock:
        for plugin in plugins:
            if plugin not in _loaded:
                # It came as text: who runs it may be on another machine.
                with TemporaryDirectory(prefix="gapless-") as folder:
                    path = Path(folder) / plugin.name
                    path.write_text(plugin.source, encoding="utf-8")
                    load_plugin(path)
                _loaded.add(plugin)
