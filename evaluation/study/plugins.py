"""Registers the planners of a study's plugins in every process that makes its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from evaluation.study.study import Plugin
from planners.registry import choose, choose_online, load_plugin

# The kinds and names that each loaded plugin registered.
_loaded: dict[Plugin, set[object]] = {}
# A worker process may make runs in several threads.
_lock = Lock()


def load_plugins(plugins: Iterable[Plugin]) -> None:
    """Register the planners of plugins, each plugin once in a process."""
    with _lock:
        for plugin in plugins:
            if plugin not in _loaded:
                before = _registered()
                # A plugin travels as text, because a worker may be on another machine.
                with TemporaryDirectory(prefix="gapless-") as folder:
                    path = Path(folder) / plugin.name
                    path.write_text(plugin.source, encoding="utf-8")
                    load_plugin(path)
                _loaded[plugin] = _registered() - before


def plugin_of(kind: str, name: str) -> Plugin | None:
    """Return the plugin that registered a planner, or an online allocator; None for all others."""
    return next((plugin for plugin, brought in _loaded.items() if (kind, name) in brought), None)


def digest_of(plugin: Plugin | None) -> dict[str, str]:
    """Return the digest of a plugin by its name, as a record has it."""
    if plugin is None:
        return {}
    return {plugin.name: "sha256:" + hashlib.sha256(plugin.source.encode()).hexdigest()}


def _registered() -> set[object]:
    found: set[object] = {("offsets", each.info.name) for each in choose("*")}
    return found | {("online", each.info.name) for each in choose_online("*")}
