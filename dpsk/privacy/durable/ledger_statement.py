"""A durable ledger for a report: as a paragraph, and as plain values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..neighbours import Adjacency
from ..report import round_up
from ..units import ROW, definition, group_protected_less, several
from .terms import Amount, Spend, Terms


def ledger_statement(terms: Terms, spends: Sequence[Spend], left: Amount, names: Sequence[str]) -> str:
    """Return what is promised for everything recorded, and what is not.

    ``names`` are the disjoint data sets that this is about; none stands for all of the data.
    """
    recorded = [spend for spend in spends if spend.state != "returned"]
    broken, counted = ([spend for spend in recorded if spend.private is private] for private in (False, True))
    waiting = sum(spend.state == "open" for spend in counted)
    guarantee = f"({round_up(terms.epsilon, 4)}, {round_up(terms.delta, 3)})-differential privacy"
    on = f" on {', '.join(map(repr, names))}" if names else ""
    text = ""
    if broken:
        text = (
            f"NOT PRIVATE: {number_of(len(broken), 'fit')} recorded here had noise from a known seed, or none. They "
            "void the guarantee; the rest of this statement is about the others alone. "
        )
    text += (
        f"All fits and scores recorded in this ledger{on}, {len(counted)} so far, keep {guarantee} together, as "
        f"will later ones. The unit of protection is {definition(terms.unit)}; two data sets are neighbours when "
        f"{Adjacency(terms.adjacency).words(terms.unit)}. {_conditions(terms)}"
        f"Treated as public, and not protected: the numbers of rows{_of_units(terms.unit)} and of columns, the sets of "
        f"class labels, that all values are finite, and all parameters. {group_protected_less(terms.unit)} protected "
        "less. Nothing is promised about what was computed from the data without being recorded here, such as the "
        f"scores of a model selection. Left: {terms.words(left)}."
    )
    if waiting:
        text += f" Running, or ended without a word: {number_of(waiting, 'fit')}, counted with all that was set aside."
    return text


SCHEMA = 1
"""The version of :func:`as_plain`. It grows when a name is taken away or gets another meaning."""


def as_plain(
    identity: str | None,
    file: str,
    terms: Terms,
    spends: Sequence[Spend],
    left: Mapping[str, float],
    left_for: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """Return a ledger as plain values, ready for JSON; what is infinite becomes None."""
    fixed = asdict(terms) | {"limit": terms.as_dict(terms.limit), "disjoint": list(terms.disjoint)}
    entries = [asdict(spend) | {"datasets": list(spend.datasets)} for spend in spends]
    for entry in entries:
        entry["epsilon"] = entry["epsilon"] if math.isfinite(entry["epsilon"]) else None
    named = {"schema": SCHEMA, "identity": identity, "file": file}
    return named | {"terms": fixed, "left": left, "left_for": left_for, "entries": entries}


def _conditions(terms: Terms) -> str:
    text = ""
    if terms.reserve:
        text += (
            f"Of delta, {round_up(terms.reserve, 3)} is for fits that discover values: for each {terms.unit}, with at "
            "most this probability any of them shows a value that it alone has. "
        )
    if terms.disjoint:
        apart = "no row is in two" if terms.unit == ROW else f"no {terms.unit} has rows in two"
        text += (
            f"This holds provided that {apart} of the data sets {', '.join(map(repr, terms.disjoint))}, and that it is "
            f"public which of them a {terms.unit} belongs to. "
        )
    return text


def _of_units(unit: str) -> str:
    return "" if unit == ROW else f", of {several(unit)}"


def number_of(count: int, word: str) -> str:
    """Return a number of things in words."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
