"""What the fits of a cross-validation and its score guarantee together, and whether a ledger has room for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..data import Facts, Unknown, UnknownFact
from ..estimators.classifier import PrivateClassifier
from ..estimators.plan import budget_of_plan
from ..privacy import Budget, BudgetExhausted, PrivacyLedger, PrivacySpent
from ..privacy.durable.terms import CURRENCIES, NOTHING, Amount, Terms, amount_in, decimal, epsilon_of, float_above


@dataclass(frozen=True)
class CrossValidationCost:
    """The guarantee of the k models and the score of a cross-validation together, for one unit.

    Parameters
    ----------
    fits, fits_on_a_row : int
        How many models there are, and how many of them were fitted on any one row, or person: all but one.
    epsilon, delta : float
        The guarantee of these fits and of the score; epsilon is inf where one of them is not private.
    composition : str
        By which theorem: "basic", "rho" or "mu**2".
    reserved : dict or None
        What all fits and the score have set aside in the ledger, which does not know of folds; None without a ledger.
    """

    fits: int
    fits_on_a_row: int
    epsilon: float
    delta: float
    composition: str
    reserved: dict[str, float] | None


def cost_of(fits: Sequence[PrivacySpent], score: PrivacySpent, ledger: PrivacyLedger | None) -> CrossValidationCost:
    """Return the cost of these fits, each of which leaves out another part of the units, and of a score of all units.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 16.6)
    Of each sum over the fits the smallest term is left out. No unit pays more, whichever fit it is missing from.
    """
    k = len(fits)
    epsilon, delta = (
        float_above(_dearest([decimal(_finite(getattr(spent, name))) for spent in fits], getattr(score, name)))
        for name in ("epsilon", "delta")
    )
    found = [(epsilon, "basic")]
    budgets = [budget for spent in (*fits, score) if (budget := _budget(spent)) is not None]
    if len(budgets) < k + 1:
        return CrossValidationCost(k, k - 1, math.inf, delta, "basic", _reserved(budgets, ledger))
    for name, currency in CURRENCIES.items():
        exact = [] if currency is None else [amount_in(budget, currency) for budget in budgets]
        amounts = [amount for amount in exact if amount is not None]
        if currency is not None and delta > 0 and len(amounts) == k + 1:
            *of_fits, (main, failure) = amounts
            whole, failing = (
                float_above(_dearest([Fraction(amount[part]) for amount in of_fits], last))
                for part, last in enumerate((main, failure))
            )
            found.append((epsilon_of(currency, whole, failing, delta), name))
    epsilon, composition = min(found)
    return CrossValidationCost(k, k - 1, epsilon, delta, composition, _reserved(budgets, ledger))


def _dearest(of_fits: Sequence[Fraction], of_score: float) -> Fraction:
    """Return the largest sum of all terms but one, and of that of the score."""
    return sum(of_fits, decimal(of_score)) - min(of_fits)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _budget(spent: PrivacySpent) -> Budget | None:
    """Return the budget that a private report is about; None for one that is not private."""
    if not spent.private:
        return None
    return Budget(spent.epsilon, spent.delta, spent.currency, spent.limit)


def _reserved(budgets: Iterable[Budget], ledger: PrivacyLedger | None) -> dict[str, float] | None:
    if ledger is None:
        return None
    terms = ledger.terms()
    return terms.as_dict(sum((terms.price(budget) for budget in budgets), NOTHING))


def prices(last: PrivateClassifier, facts: Sequence[Facts | Unknown], terms: Terms) -> list[Amount] | None:
    """Return what a ledger with these terms sets aside for private fits on data with these facts.

    None if that depends on facts that are not known yet.
    """
    try:
        budgets = [budget_of_plan(last, known) for known in facts]
    except UnknownFact:
        stated = [decimal(float(value)) for value in (last.epsilon, last.delta)]
        return [Amount(*stated) for _ in facts] if terms.currency == "basic" else None
    return [NOTHING if budget is None else terms.price(budget) for budget in budgets]


def require_room_for_all(ledger: PrivacyLedger, fits: Sequence[Amount], score: Amount) -> None:
    """Raise BudgetExhausted unless the ledger has room for all fits and the score together."""
    terms, left = ledger.terms(), ledger.left()
    needed = sum(fits, score)
    if not needed.fits_into(left):
        raise BudgetExhausted(
            f"private_cross_validate asks for {terms.words(needed)}, for {len(fits)} fits and one score, but "
            f"{terms.words(left)} is left in PrivacyLedger({ledger.path!r}). Nothing was fitted, and nothing was drawn"
        )
