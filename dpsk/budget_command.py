"""``python -m dpsk budget``: how far a budget goes, a new ledger, and what a ledger file says."""

import argparse
import json
import math
import os
import textwrap
from typing import Any

from .privacy import PrivacyLedger
from .privacy.durable.capacity import advice, epsilon_of_each, fits_of_each
from .privacy.durable.terms import CURRENCIES, Spend, Terms

WHAT_FITS = {
    "basic": "every estimator",
    "rho": "DPAGD*; DPLogisticRegression and the like with solver='adaptive-gradient'",
    "mu**2": "DPLogisticRegression, DPLinearSVC, DPGradientDescentClassifier",
}
"""Which estimators keep their own budget in a currency, and so get what is planned for it."""

CREATION = ("epsilon", "delta", "unit", "currency", "adjacency", "disjoint", "reserve")
"""What is fixed when a ledger is created."""


def planned(epsilon: float, delta: float, fits: int | None, each: float | None, each_delta: float) -> dict[str, Any]:
    """Return, for every currency, the epsilon that each of so many fits may have, or how many fits fit."""
    Terms.fixed(epsilon=epsilon, delta=delta, currency=None, adjacency=None, disjoint=None, allow_nonprivate=None)
    found = dict[str, Any]()
    for currency, kept_in in CURRENCIES.items():
        if kept_in is not None and delta == 0:
            continue
        number, part = fits, (each, each_delta)
        if fits is not None:
            part = epsilon_of_each(currency, epsilon, delta, fits)
        elif each is not None:
            number = fits_of_each(currency, epsilon, delta, each, each_delta)
        what = WHAT_FITS[currency] if delta > 0 else "private_score"
        found[currency] = {"fits": number, "epsilon": part[0], "delta": part[1], "estimators": what}
    return {"epsilon": epsilon, "delta": delta, "currencies": found}


def plan(epsilon: float, delta: float, found: dict[str, Any]) -> list[str]:
    """Return a plan in words."""
    lines = [f"A ledger of epsilon {epsilon:g} and delta {delta:g} holds", ""]
    for currency, one in found.items():
        part = f"epsilon {_down(one['epsilon'])} and delta {_down(one['delta'])}"
        lines.append(f"  kept in {currency:6} {one['fits']} fits of {part}: {one['estimators']}")
    return lines


def _down(value: float) -> str:
    """Return ``value`` as it is if that is short, otherwise with four digits, rounded down."""
    if value <= 0:
        return "0"
    if float(f"{value:g}") == value:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    shown = f"{math.floor(value / unit * (1 + 1e-13)) * unit:.4g}"
    return shown if float(shown) <= value else f"{value:.17g}"


def show(path: str) -> list[str]:
    """Return what a ledger file holds: what is left, every fit, and the statement for a report."""
    ledger = PrivacyLedger(path)
    terms, history = ledger.terms(), ledger.history()
    lines = [repr(ledger)[1:-1], f"  identity {ledger.identity or 'none yet, and the file cannot be written'}", ""]
    for name in terms.disjoint:
        lines.append(f"  left for {name}: {terms.words(ledger.on(name).left())}")
    for spend in history:
        lines += [f"  {_line(spend)}", *(f"       {line}" for line in _remarks(spend))]
    lines += [] if history else ["  no fits yet"]
    return [*lines, "", ledger.statement()]


def _line(spend: Spend) -> str:
    counted = ", ".join(f"{name} {value:.6g}" for name, value in spend.counted.items())
    kind = f"counts {counted}" if spend.private else "NOT PRIVATE, counts nothing"
    on = f" on {', '.join(spend.datasets)}" if spend.datasets else ""
    return (
        f"{spend.number:4} {spend.started[:19]} {spend.label}{on}: epsilon {spend.epsilon:g}, delta {spend.delta:g}; "
        f"{spend.state}, {kind}"
    )


def _remarks(spend: Spend) -> list[str]:
    """Return the lines below the one of an entry: its id, who made it and why, and its parameters."""
    who = f" by {spend.who}" if spend.who else ""
    note = f": {' '.join(spend.note.split())}" if spend.note else ""
    said = [f"entry {spend.id}{who}{note}"]
    if spend.parameters:
        said.append(", ".join(f"{name}={_shown(value)}" for name, value in spend.parameters.items()))
    return [line for text in said for line in textwrap.wrap(text, 112, break_on_hyphens=False)]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    commands = parser.add_subparsers(dest="budget", required=True)
    command = commands.add_parser(
        "plan", help="which epsilon so many fits may have, or how many fits of one there may be"
    )
    command.add_argument("--epsilon", type=float, required=True, help="epsilon of all fits together")
    command.add_argument("--delta", type=float, required=True, help="delta of all fits together")
    wanted = command.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--fits", type=int, help="how many equal fits")
    wanted.add_argument("--each", type=float, help="the epsilon of each fit")
    command.add_argument("--each-delta", type=float, default=1e-6, help="the delta of each fit (default: 1e-6)")
    _add_creation(commands.add_parser("create", help="make the ledger of some data, once"))
    command = commands.add_parser("show", help="what is left in a ledger, and what was spent")
    command.add_argument("file", help="the file of a PrivacyLedger")
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print JSON, for programs (docs/ledger.md)")


def _add_creation(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="the file of the new PrivacyLedger; refused if it exists")
    command.add_argument("--epsilon", type=float, required=True, help="epsilon of all fits together")
    command.add_argument("--delta", type=float, required=True, help="delta of all fits together")
    command.add_argument("--unit", help="what is protected: row (default), or a name for persons, such as patient")
    command.add_argument("--currency", help=f"what adds up: {', '.join(CURRENCIES)} (default: basic)")
    command.add_argument("--adjacency", help="which data sets are neighbours: zero-out (default) or replace")
    command.add_argument("--disjoint", nargs="+", metavar="NAME", help="data sets that have no row or person in common")
    command.add_argument("--reserve", type=float, help="the part of delta for discoveries, in a ledger kept in mu**2")


def create(options: argparse.Namespace) -> tuple[PrivacyLedger, str]:
    """Make a ledger; return it with the advice about its currency; raise ValueError or LedgerError if it cannot be."""
    given = {name: value for name, value in vars(options).items() if name in CREATION}
    chosen = options.currency is not None
    if os.path.lexists(options.file):
        raise ValueError(
            f"{options.file!r} exists, and nothing was created. To see what it holds: python -m dpsk budget show "
            f"{options.file}"
        )
    ledger = PrivacyLedger(options.file, create=True, **given | {"currency": options.currency or "basic"})
    return ledger, "" if chosen else advice(ledger.terms())


def run(options: argparse.Namespace) -> str:
    """Return what the command prints; raise ValueError or LedgerError with what is wrong."""
    told = ""
    if options.budget == "create":
        ledger, told = create(options)
        found = ledger.to_dict() | {"advice": told or None}
    elif options.budget == "show":
        found = PrivacyLedger(options.file).to_dict()
    else:
        _require_plan(options)
        found = planned(options.epsilon, options.delta, options.fits, options.each, options.each_delta)
    if options.json:
        return json.dumps(found, indent=2, allow_nan=False)
    if options.budget == "plan":
        return "\n".join(plan(options.epsilon, options.delta, found["currencies"]))
    return "\n".join([*show(options.file), *(["", f"{told}."] if told else [])])


def _require_plan(options: argparse.Namespace) -> None:
    """Raise ValueError for numbers that no plan can have."""
    if options.fits is not None and options.fits < 1:
        raise ValueError(f"--fits {options.fits} must be at least 1")
    for name, value, low in (("each", options.each, 0.0), ("each-delta", options.each_delta, -1.0)):
        if value is not None and not low < value < (math.inf if name == "each" else 1):
            raise ValueError(f"--{name} {value:g} is out of range")
