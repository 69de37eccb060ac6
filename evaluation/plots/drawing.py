"""The style of the static figures of a report: axes, and the colours and dashes of lines."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from evaluation.plots.plan_rectangles import BOUND_COLOUR, CLASS_COLOURS, INK
from planners.files.output_file import replacing
from planners.registry import planners
from planners.text.plain_text import one_line

WIDTH_INCHES = 8.0
DOTS_PER_INCH = 200
# Yellow is too light for a line.
LINE_COLOURS = (INK, *CLASS_COLOURS[:5], BOUND_COLOUR)
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1, 1, 1)))
MARKERS = "os^Dvx+"
# Planners that most figures show; each has a colour of its own.
FIRST_COLOURED = (
    "auto", "homosize", "pressure", "branch-and-bound", "cp-sat", "greedy-size-first", "naive",
)  # fmt: skip
# Most lines of one panel; more lines hide each other. A guess.
MOST_LINES = 6
PANEL_COLUMNS = 3
PANEL_INCHES = 1.7
OTHERS_COLOUR = "#cccccc"
MOST_PANELS = 30
MOST_LABEL_CHARACTERS = 48
# So many characters of eight points fit above one of `PANEL_COLUMNS` panels.
PANEL_TITLE_CHARACTERS = 38

# The endings that the file of a figure may have.
SUFFIXES = tuple(f".{name}" for name in FigureCanvasAgg.get_supported_filetypes())

Look = Mapping[str, Any]
PictureFormat = Literal["png", "svg", "pdf"]


def new_figure(
    height_inches: float, rows: int = 1, columns: int = 1, *, is_shared: bool = False
) -> tuple[Figure, list[Any]]:
    """Return an empty figure, and its axes row by row."""
    figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=is_shared, sharey=is_shared)
    axes = list(grid.ravel())
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(which="both", labelsize=9)
        # Minor ticks are shorter; with this their labels stand in line with the others.
        each.tick_params(which="minor", pad=5)
        each.grid(visible=True, color="#e6e6e6", linewidth=0.7)
        each.set_axisbelow(True)
    return figure, axes


def line_looks(labels: Iterable[str]) -> dict[str, Look]:
    """Return colour, dashes and marker of each line: all pairs of lines differ.

    A planner of ``FIRST_COLOURED`` has the same colour on all pages. Any other planner has one
    colour on each page, which no other planner there has as long as there are enough colours.
    """
    ours = [info.name for info in planners() if info.built_in and info.name not in FIRST_COLOURED]
    place_of = {name: place for place, name in enumerate([*FIRST_COLOURED, *ours])}
    looks: dict[str, Look] = {}
    taken = set[tuple[int, int]]()
    settled = set(FIRST_COLOURED)

    def turn(label: str) -> tuple[bool, bool, str]:
        return label.partition(":")[0] not in FIRST_COLOURED, label not in place_of, label

    for label in sorted(set(labels), key=turn):
        planner = label.partition(":")[0]
        place = place_of.setdefault(planner, len(place_of))
        if planner not in settled:
            settled.add(planner)
            colours = ((place + beside) % len(LINE_COLOURS) for beside in range(len(LINE_COLOURS)))
            used = {colour for _, colour in taken}
            place = next((colour for colour in colours if colour not in used), place)
            place_of[planner] = place
        first, colour = divmod(place, len(LINE_COLOURS))
        # Settings of one planner share a colour and differ in dashes, until no dashes are left.
        free = (
            ((first + more) % len(LINE_STYLES), (colour + beside) % len(LINE_COLOURS))
            for beside in range(len(LINE_COLOURS))
            for more in range(len(LINE_STYLES))
        )
        style, colour = next(
            (look for look in free if look not in taken), (first % len(LINE_STYLES), colour)
        )
        taken.add((style, colour))
        looks[label] = {
            "color": LINE_COLOURS[colour], "linestyle": LINE_STYLES[style],
            "marker": MARKERS[style],
        }  # fmt: skip
    return looks


def line_figure(
    texts: Mapping[str, str],
    looks: Mapping[str, Look],
    draw: Callable[[Any, str, Look], None],
    dress: Callable[[Any], None],
    words: tuple[str, str],
) -> Figure:
    """Return a figure of lines: one panel up to ``MOST_LINES``, else a panel for each line.

    The panel of a line shows all other lines in grey behind it. ``texts`` has the text shown for
    each label, ``draw`` adds a line to axes, ``dress`` gives axes their scales and what all panels
    have behind the lines, and ``words`` are the titles of the two axes.
    """
    shown = dict(list(texts.items())[:MOST_PANELS])
    if len(shown) <= MOST_LINES:
        figure, panels = new_figure(4.2)
        for label in shown:
            draw(panels[0], label, {**looks[label], "label": plain_label(shown[label])})
        dress(panels[0])
        add_legend(figure, panels)
    else:
        rows = -(-len(shown) // PANEL_COLUMNS)
        figure, panels = new_figure(0.5 + PANEL_INCHES * rows, rows, PANEL_COLUMNS, is_shared=True)
        for axes, label in zip(panels, shown, strict=False):
            for other in shown:
                draw(axes, other, {**looks[other], "color": OTHERS_COLOUR, "rasterized": True})
            draw(axes, label, looks[label])
            title = in_lines(shown[label], PANEL_TITLE_CHARACTERS)
            axes.set_title(title, fontsize=8, loc="left")
            axes.tick_params(labelsize=8)
        for axes in panels[: len(shown)]:
            dress(axes)
        add_legend(figure, panels[: len(shown)])
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        # If the last row lacks panels, the panels above the empty places need labels too.
        for axes in panels[: len(shown)][-PANEL_COLUMNS:]:
            axes.tick_params(labelbottom=True)
    more = f"; the first {len(shown)} of {len(texts)} planners" if len(shown) < len(texts) else ""
    figure.supxlabel(words[0] + more, fontsize=10)
    figure.supylabel(words[1], fontsize=10)
    return figure


def layered_figure(
    lines: Mapping[str, Mapping[Any, float]],
    dress: Callable[[Any], None],
    words: tuple[str, str],
) -> Figure:
    """Return a figure of lines that may lie on each other, so those below are wider."""

    def draw(axes: Any, label: str, look: Look) -> None:
        width = 1.5 + list(lines)[::-1].index(label) / 2
        places = list(lines[label]), list(lines[label].values())
        axes.plot(*places, markersize=2 + 2 * width, linewidth=width, **look)

    return line_figure({label: label for label in lines}, line_looks(lines), draw, dress, words)


def plain_label(text: str) -> str:
    """Return foreign text so that matplotlib draws it literally and not as a formula."""
    line = one_line(text, MOST_LABEL_CHARACTERS).replace("$", r"\$")
    # Legends leave out an empty label and a label that begins with an underscore.
    return line if line and not line.startswith("_") else f" {line}"


def in_lines(text: str, most: int) -> str:
    """Return foreign text as lines of at most ``most`` characters, broken behind colons first."""
    lines = [""]
    for part in re.findall(r"[^: ]+[: ]*|[: ]+", one_line(text, MOST_LABEL_CHARACTERS)):
        if lines[-1] and len(lines[-1] + part.rstrip()) > most:
            lines.append("")
        *full, last = wrap(lines[-1] + part, most, drop_whitespace=False) or [""]
        lines[-1:] = [*full, last]
    return "\n".join(plain_label(line.rstrip()) for line in lines)


def add_legend(figure: Figure, panels: Sequence[Any]) -> None:
    """Name the lines of panels beside them, each once, in the order in which they were drawn."""
    handle_of: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handle_of.setdefault(label, handle)
    if not handle_of:
        return
    figure.legend(
        list(handle_of.values()), list(handle_of), loc="outside right upper", fontsize=8.5,
        frameon=False, handlelength=2.6,
    )  # fmt: skip


def logarithmic(axes: Any, way: Literal["x", "y"], text_of: Callable[[float], str]) -> None:
    """Make an axis logarithmic; a short axis has labels between powers of ten too."""
    label = FuncFormatter(lambda value, _: text_of(value))
    axes.set(**{f"{way}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[way]
    low, high = axis.get_data_interval()
    axis.set_major_formatter(label)
    # A locator of matplotlib's crowds axes of less than one power of ten with labels.
    steps = (1.5, 2, 3, 5, 7) if high < 8 * low else (2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    axis.set_minor_locator(FixedLocator([step * 10.0**power for power in powers for step in steps]))
    axis.set_minor_formatter(label if high < 50 * low else NullFormatter())


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format that the suffix of its file names, or in matplotlib's own."""
    suffix = path.suffix.lower()
    form = suffix.removeprefix(".") if suffix in SUFFIXES else None
    with replacing(path) as file:
        figure.savefig(file, dpi=DOTS_PER_INCH, format=form)


def bytes_of(figure: Figure, suffix: PictureFormat) -> bytes:
    """Return a figure as a picture, the same bytes for the same figure."""
    file = io.BytesIO()
    dated = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}
    with matplotlib.rc_context({"svg.hashsalt": "gapless"}):
        figure.savefig(file, dpi=DOTS_PER_INCH, format=suffix, metadata={dated[suffix]: None})
    return file.getvalue()
