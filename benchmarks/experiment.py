"""An experiment: what it measures, and the report that it fills in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from string import Formatter

from . import table
from .table import Table

__all__ = ["Experiment", "fits", "save", "write"]

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Experiment:
    """Data sets x solvers x configurations, as the keys of tables, and a report of their rows.

    The module of ``benchmarks/experiments`` has a ``TABLE`` and ``keys(repeats)``, which it has to hold, or
    ``needs(repeats)`` with several tables. ``report()`` writes the files from the CSV files alone. ``note()``, of the
    figures and tables of papers, says how often things were repeated, beside what the paper did. A module with several
    experiments gets the variant first.
    """

    name: str
    module: str
    title: str
    files: tuple[str, ...] = ()
    """One of the name of the experiment if left out."""
    repeats: int | None = None
    """None where the number of repeats is declared with the configurations, or where nothing is repeated."""
    jobs: int = 2
    """1 where time is measured."""
    variant: str | None = None

    def made(self) -> tuple[str, ...]:
        return self.files or (f"{self.name}.md",)

    def needs(self, repeats: int | None) -> list[tuple[Table, list[tuple]]]:
        """Return tables and the keys that they have to hold."""
        needs = self._of("needs")
        found = needs(repeats) if needs else [(self._module().TABLE, self._of("keys")(repeats))]
        return [(rows, list(keys)) for rows, keys in found]

    def report(self) -> None:
        self._of("report")()

    def note(self) -> str | None:
        note = self._of("note")
        return note() if note else None

    def _module(self):
        return import_module(f".experiments.{self.module}", __package__)

    def _of(self, name: str) -> Callable | None:
        function = getattr(self._module(), name, None)
        return function and (lambda *given: function(*([self.variant] if self.variant else []), *given))


def write(template: str, **values: object) -> None:
    """Fill in a template and store it with the results; every place needs a value, and every value a place."""
    text = (TEMPLATES / f"{template}.md").read_text()
    places = {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name}
    if places != values.keys():
        raise ValueError(f"{template}.md has places for {sorted(places)} and got {sorted(values)}")
    (table.RESULTS / f"{template}.md").write_text(text.format_map(values))


def save(figure, name: str, dpi: int = 80) -> None:
    """Store a picture with the results."""
    figure.savefig(table.RESULTS / f"{name}.png", dpi=dpi)


def fits(rows: Iterable[table.Row], name: str, point: Sequence[str]) -> str:
    """Return how many fits there are per point of each line, given the columns of its name and of its points."""
    points: dict[str, Counter[tuple[str, ...]]] = {}
    for row in rows:
        points.setdefault(row.get(name, "default"), Counter())[tuple(row[field] for field in point)] += 1
    texts = []
    for line, cells in points.items():
        least, most = min(cells.values()), max(cells.values())
        texts.append(f"{line}: {least}" + (f" to {most}" if most > least else ""))
    return f"Fits per point here: {'; '.join(texts)}"
