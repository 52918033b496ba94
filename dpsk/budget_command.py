"""``python -m dpsk budget``: how far a budget goes, a new ledger, and what a ledger file says."""

import argparse
import math

from .privacy import PrivacyLedger
from .privacy.durable.terms import CURRENCIES, Spend, Terms, decimal, float_below

WHAT_FITS = {
    "basic": "every estimator",
    "rho": "DPAGD*; DPLogisticRegression and the like with solver='adaptive-gradient'",
    "mu**2": "DPLogisticRegression, DPLinearSVC, DPGradientDescentClassifier",
}
"""Which estimators keep their own budget in a currency, and so get what is planned for it."""

CREATION = ("epsilon", "delta", "unit", "currency", "adjacency", "disjoint", "reserve")
"""What is fixed when a ledger is created."""


def epsilon_of_each(currency: str, epsilon: float, delta: float, fits: int) -> tuple[float, float]:
    """Return the largest epsilon and delta that each of so many equal fits may have in a ledger of this currency.

    Under "basic" the fits share delta as well. In the other currencies each fit may use the delta of the ledger.
    """
    kept_in = CURRENCIES[currency]
    if kept_in is None:
        return float_below(decimal(epsilon) / fits), float_below(decimal(delta) / fits)
    part = float_below(decimal(kept_in.limit(epsilon, delta)) / fits)
    each = kept_in.epsilon(part, delta)
    while decimal(kept_in.limit(each, delta)) > decimal(part):  # two roundings that meet
        each = math.nextafter(each, 0)
    return each, delta


def fits_of_each(currency: str, epsilon: float, delta: float, each: float, each_delta: float) -> int:
    """Return how many fits with this epsilon and delta a ledger kept in this currency takes."""
    kept_in = CURRENCIES[currency]
    if kept_in is None:
        shares = [decimal(epsilon) / decimal(each)]
        if each_delta > 0:
            shares.append(decimal(delta) / decimal(each_delta))
        return math.floor(min(shares))
    return math.floor(decimal(kept_in.limit(epsilon, delta)) / decimal(kept_in.limit(each, each_delta)))


def plan(epsilon: float, delta: float, fits: int | None, each: float | None, each_delta: float) -> list[str]:
    """Return, for every currency, the epsilon that each of so many fits may have, or how many fits fit."""
    Terms.fixed(epsilon=epsilon, delta=delta, currency=None, adjacency=None, disjoint=None, allow_nonprivate=None)
    lines = [f"A ledger of epsilon {epsilon:g} and delta {delta:g} holds", ""]
    for currency, kept_in in CURRENCIES.items():
        if kept_in is not None and delta == 0:
            continue
        if fits is not None:
            number, part = fits, " and delta ".join(map(_down, epsilon_of_each(currency, epsilon, delta, fits)))
        elif each is not None:
            number, part = (
                fits_of_each(currency, epsilon, delta, each, each_delta),
                f"{each:g} and delta {each_delta:g}",
            )
        what = WHAT_FITS[currency] if delta > 0 else "private_score"
        lines.append(f"  kept in {currency:6} {number} fits of epsilon {part}: {what}")
    return lines


def _down(value: float) -> str:
    """Return ``value`` with four digits, rounded down."""
    if value <= 0:
        return "0"
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
    lines += [f"  {_line(spend)}" for spend in history] or ["  no fits yet"]
    return [*lines, "", ledger.statement()]


def _line(spend: Spend) -> str:
    counted = ", ".join(f"{name} {value:.6g}" for name, value in spend.counted.items())
    kind = f"counts {counted}" if spend.private else "NOT PRIVATE, counts nothing"
    on = f" on {', '.join(spend.datasets)}" if spend.datasets else ""
    return (
        f"{spend.number:4} {spend.started[:19]} {spend.label}{on}: epsilon {spend.epsilon:g}, delta {spend.delta:g}; "
        f"{spend.state}, {kind}"
    )


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


def _add_creation(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="the file of the new PrivacyLedger; refused if it exists")
    command.add_argument("--epsilon", type=float, required=True, help="epsilon of all fits together")
    command.add_argument("--delta", type=float, required=True, help="delta of all fits together")
    command.add_argument("--unit", help="what is protected: row (default), or a name for persons, such as patient")
    command.add_argument("--currency", help=f"what adds up: {', '.join(CURRENCIES)} (default: basic)")
    command.add_argument("--adjacency", help="which data sets are neighbours: zero-out (default) or replace")
    command.add_argument("--disjoint", nargs="+", metavar="NAME", help="data sets that have no row or person in common")
    command.add_argument("--reserve", type=float, help="the part of delta for discoveries, in a ledger kept in mu**2")


def create(options: argparse.Namespace) -> list[str]:
    """Make a ledger and return what it holds; raise ValueError or LedgerError if it cannot be made."""
    given = {name: value for name, value in vars(options).items() if name in CREATION}
    PrivacyLedger(options.file, create=True, **given)
    return show(options.file)


def run(options: argparse.Namespace) -> str:
    """Return what the command prints; raise ValueError or LedgerError with what is wrong."""
    if options.budget == "create":
        return "\n".join(create(options))
    if options.budget == "show":
        return "\n".join(show(options.file))
    if options.fits is not None and options.fits < 1:
        raise ValueError(f"--fits {options.fits} must be at least 1")
    for name, value, low in (("each", options.each, 0.0), ("each-delta", options.each_delta, -1.0)):
        if value is not None and not low < value < (math.inf if name == "each" else 1):
            raise ValueError(f"--{name} {value:g} is out of range")
    return "\n".join(plan(options.epsilon, options.delta, options.fits, options.each, options.each_delta))
