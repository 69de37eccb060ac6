"""A GPU as a device: one launch a node on the node's stream, and one event wait an arc."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu_runtime.verification.devices.cuda.compiler import ask
from gpu_runtime.verification.devices.cuda.context import (
    Buffer,
    Context,
    Event,
    Stream,
    driver,
    open_context,
)
from gpu_runtime.verification.devices.cuda.work_table import WorkTable, make_work_table
from gpu_runtime.verification.devices.device import (
    BrokenWord,
    DeviceFigures,
    DeviceOutcome,
    ForeignWords,
)
from gpu_runtime.verification.devices.simulated_device import execution_order
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_check_program import StampCheckProgram
from gpu_runtime.verification.trials.stamp_pattern import WORD_BYTES
from gpu_runtime.verification.trials.trial import Disturbance, Trial

THREADS = 512
BLOCKS_PER_MULTIPROCESSOR = 2
# Blocks of a held node, few enough to leave room for the nodes that pass it; a guess.
HELD_BLOCKS = 16
# A hold outlasts a delay of the submitting thread, however short the program is; a guess.
SHORTEST_LAP_SECONDS = 3e-3

SLOTS = 1 << 16
BROKEN_WORDS = 1 << 14

PROGRESS_BYTES = 16
DELAY = np.dtype([("before_ns", np.uint64), ("within_ns", np.uint64)])
SLOT = np.dtype([("pair", np.uint64), ("words", np.uint64), ("first_complement", np.uint64)])
BROKEN = np.dtype(
    [("word", np.uint64), ("found", np.uint64), ("victim", np.uint32), ("mask", np.uint32)]
)
FINDINGS = np.dtype(
    [("wrong", np.uint32), ("broken", np.uint32), ("lost", np.uint32), ("unused", np.uint32)]
)


# The argument of the kernel: ``Program`` of ``stamp_check_kernel.cu``, field by field.
ADDRESSES = (
    "arena", "chunks", "nodes", "progress", "delays", "key", "findings", "slots", "broken",
)  # fmt: skip
COUNTS = ("tensors", "slot_mask", "broken_capacity", "unused")
PROGRAM = np.dtype(
    [*((name, np.uint64) for name in ADDRESSES), *((name, np.uint32) for name in COUNTS)]
)

Owned = TypeVar("Owned", Buffer, Stream, Event)


class CudaDevice:
    """The first GPU, loaded with a program and a layout."""

    def __init__(self, program: StampCheckProgram, layout: Layout) -> None:
        if layout.cell_start is not None:
            raise ValueError("a GPU holds every byte; compressed layouts are for the CPU")
        self._program = program
        self._graph: Any = None
        self._lap_seconds = SHORTEST_LAP_SECONDS
        self._undo = contextlib.ExitStack()
        context = open_context()
        # The kernel is loaded and the copy rate measured first: both take memory.
        self._kernel = context.kernel
        copy_bytes_per_second = context.copy_bytes_per_second
        try:
            free = context.free_bytes
            self._arena = self._own(Buffer(context, layout.arena_bytes))
            reserved = free - context.free_bytes
            self._load(context, make_work_table(program, layout), layout.tensor_count)
        except BaseException:
            self._undo.close()
            raise
        self.figures = DeviceFigures(
            context.name,
            layout.arena_bytes,
            reserved,
            _touched(program.stamps, layout),
            _touched(program.checks, layout),
            copy_bytes_per_second,
        )

    def run(self, trial: Trial) -> DeviceOutcome:
        """Run the whole program once; an undisturbed trial also measures a lap."""
        if trial.disturbance is Disturbance.NONE:
            return self._run_undisturbed(trial)
        # Adversarial delays need the host's order: a recorded graph may run a node behind the held
        # node that it is to pass.
        graph = self._graph
        if graph is not None and not trial.is_directed:
            return self._finish(trial, lambda: self._replay(graph))
        order = _begin_order(self._program, trial)
        held = np.flatnonzero(trial.before + trial.within).tolist() if trial.is_directed else []
        return self._finish(trial, lambda: self._submit(order, held))

    def close(self) -> None:
        """Free arena, tables, streams and events."""
        ask(driver.cuCtxSynchronize)
        self._undo.close()

    def _run_undisturbed(self, trial: Trial) -> DeviceOutcome:
        """Run stream by stream and as a recorded graph, and keep the graph if it is faster."""
        order = range(self._program.node_count)
        # The driver loads code at a first launch, so the first run is not timed.
        first = self._finish(trial, lambda: self._submit(order))
        submitted = self._finish(trial, lambda: self._submit(order))
        self._lap_seconds = max(submitted.seconds, SHORTEST_LAP_SECONDS)
        graph = self._record(order)
        replays = [self._finish(trial, lambda: self._replay(graph)) for _ in range(2)]
        fastest = min(submitted, *replays, key=lambda outcome: outcome.seconds)
        self._graph = None if fastest is submitted else graph
        return _one_trial(fastest.seconds, [first, submitted, *replays])

    def _load(self, context: Context, table: WorkTable, tensors: int) -> None:
        nodes = self._program.node_count
        self._progress = self._own(Buffer(context, nodes * PROGRESS_BYTES))
        self._delays = self._own(Buffer(context, nodes * DELAY.itemsize))
        self._key = self._own(Buffer(context, 8))
        self._findings = self._own(Buffer(context, FINDINGS.itemsize))
        self._slots = self._own(Buffer(context, SLOTS * SLOT.itemsize))
        self._broken = self._own(Buffer(context, BROKEN_WORDS * BROKEN.itemsize))
        chunks = self._own(Buffer(context, table.chunks.nbytes))
        node_table = self._own(Buffer(context, table.nodes.nbytes))
        chunks.put(table.chunks)
        node_table.put(table.nodes)
        self._slots.fill(0)
        buffers = (
            self._arena, chunks, node_table, self._progress, self._delays, self._key,
            self._findings, self._slots, self._broken,
        )  # fmt: skip
        self._kernel_program = kernel_program([its.address for its in buffers], tensors)
        most = BLOCKS_PER_MULTIPROCESSOR * context.multiprocessors
        self._blocks: list[int] = np.minimum(table.nodes["chunks"], most).tolist()
        # The driver copies arguments at each launch, so they may be prepared once: of each node the
        # addresses of the program and of the node's index.
        self._indices = np.arange(nodes, dtype=np.uint32)
        self._arguments = np.empty((nodes, 2), dtype=np.uint64)
        self._arguments[:, 0] = self._kernel_program.ctypes.data
        self._arguments[:, 1] = self._indices.ctypes.data + 4 * np.arange(nodes, dtype=np.uint64)
        self._main = self._own(Stream(context))
        self._streams = [self._own(Stream(context)) for _ in range(self._program.stream_count)]
        awaited = sorted({earlier for its in self._program.awaits for earlier in its})
        self._events = {node: self._own(Event()) for node in awaited}
        self._fork = self._own(Event())
        self._joins = [self._own(Event()) for _ in self._streams]

    def _finish(self, trial: Trial, submit: Callable[[], object]) -> DeviceOutcome:
        """Prepare a trial, run the submitted work, and read the findings."""
        delays = np.zeros(self._program.node_count, dtype=DELAY)
        delays["before_ns"] = trial.before * self._lap_seconds * 1e9
        delays["within_ns"] = trial.within * self._lap_seconds * 1e9
        self._delays.put(delays)
        self._key.put(np.array([trial.key], dtype=np.uint64))
        self._progress.fill(0)
        self._findings.fill(0)
        ask(driver.cuCtxSynchronize)
        seconds = self._main.seconds_of(submit)
        (findings,) = self._findings.get(FINDINGS, 1)
        if not findings["wrong"]:
            return DeviceOutcome(seconds)
        count = min(int(findings["broken"]), BROKEN_WORDS)
        outcome = DeviceOutcome(
            seconds,
            foreign_words(self._slots.get(SLOT, SLOTS)),
            broken_words(self._broken.get(BROKEN, count)),
            int(findings["lost"]),
        )
        self._slots.fill(0)
        return outcome

    def _submit(self, order: Iterable[int], held: Iterable[int] = ()) -> None:
        """Submit every node to its stream in a given order, with the waits of the graph."""
        blocks = self._blocks.copy()
        for node in held:
            blocks[node] = min(blocks[node], HELD_BLOCKS)
        program, arguments = self._program, self._arguments.ctypes.data
        self._main.record(self._fork)
        for stream in self._streams:
            stream.wait(self._fork)
        for node in order:
            stream = self._streams[program.stream[node]]
            for earlier in program.awaits[node]:
                stream.wait(self._events[earlier])
            if blocks[node]:
                ask(
                    driver.cuLaunchKernel, self._kernel, blocks[node], 1, 1, THREADS, 1, 1, 0,
                    stream.handle, arguments + node * self._arguments.strides[0], 0,
                    what=f"of node {node}",
                )  # fmt: skip
            if node in self._events:
                stream.record(self._events[node])
        for stream, join in zip(self._streams, self._joins, strict=True):
            stream.record(join)
            self._main.wait(join)

    def _record(self, order: Iterable[int]) -> Any:
        """Return the work of :meth:`_submit` as an executable graph."""
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        ask(driver.cuStreamBeginCapture, self._main.handle, mode)
        self._submit(order)
        graph = ask(driver.cuStreamEndCapture, self._main.handle)
        executable = ask(driver.cuGraphInstantiate, graph, 0)
        ask(driver.cuGraphDestroy, graph)
        self._undo.callback(ask, driver.cuGraphExecDestroy, executable)
        return executable

    def _replay(self, graph: Any) -> None:
        ask(driver.cuGraphLaunch, graph, self._main.handle)

    def _own(self, made: Owned) -> Owned:
        """Return the object, and free it when the device closes."""
        self._undo.callback(made.free)
        return made


def kernel_program(addresses: Sequence[int], tensors: int) -> NDArray[np.void]:
    """Return the argument of the kernel, an array of one ``PROGRAM``."""
    row = (*addresses, tensors, SLOTS - 1, BROKEN_WORDS, 0)
    return np.array([row], dtype=PROGRAM)


def _one_trial(seconds: float, runs: Sequence[DeviceOutcome]) -> DeviceOutcome:
    """Return the findings of several runs of one trial, each wrong word once."""
    foreign: dict[tuple[int, int], ForeignWords] = {}
    for words in chain.from_iterable(run.foreign for run in runs):
        known = foreign.setdefault((words.victim, words.writer), words)
        if words.plan_bytes > known.plan_bytes:
            foreign[words.victim, words.writer] = words
    broken = dict.fromkeys(chain.from_iterable(run.broken for run in runs))
    return DeviceOutcome(
        seconds, list(foreign.values()), list(broken), max(run.lost for run in runs)
    )


def foreign_words(slots: NDArray[np.void]) -> list[ForeignWords]:
    """Return the kernel's table of pairs, without unused slots, which are all 0."""
    return [
        ForeignWords(
            victim=(int(row["pair"]) >> 32) - 1,
            writer=int(row["pair"]) & 0xFFFFFFFF,
            plan_bytes=int(row["words"]) * WORD_BYTES,
            first_word=int(~row["first_complement"]),
        )
        for row in slots[slots["pair"] != 0]
    ]


def broken_words(rows: NDArray[np.void]) -> list[BrokenWord]:
    return [
        BrokenWord(int(row["victim"]), int(row["word"]), int(row["found"]), int(row["mask"]))
        for row in rows
    ]


def _begin_order(program: StampCheckProgram, trial: Trial) -> list[int]:
    """Return the nodes in the order in which they begin on a simulated clock.

    In the order of their indices, a node that is to pass a held node might be submitted after the
    queues are full of nodes that wait for the held one.
    """
    return [node for node, ends in execution_order(program, trial) if not ends]


def _touched(tensors: tuple[tuple[int, ...], ...], layout: Layout) -> int:
    listed = [tensor for of_node in tensors for tensor in of_node]
    return int(layout.size[listed].sum())
