"""The privacy report of a fitted model: plain, frozen data."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any

from .currencies import Currency, GaussianDP, RenyiDP
from .discovery import Discovery
from .ledger import Ledger, Recorded, Release
from .neighbours import Adjacency
from .repetition import BestOf
from .rounding import above
from .units import ROW, as_unit, definition, group_protected_less, several

STEPS_AND_TIMING = "Nothing is promised about preprocessing steps that learned from the data, nor about timing. "
"""What a statement says of steps in front of a model, of which a fit knows nothing."""


class NotPrivateWarning(UserWarning):
    """A fit is not private: it has no noise, or its noise comes from a seed."""


def warn_not_private(*, noisy: bool, seeded: bool, stacklevel: int) -> None:
    """Warn if a fit has no noise, or noise from a seed. The warning does not name the seed: a log would reveal it."""
    if noisy and not seeded:
        return
    text = "" if noisy else "epsilon=inf adds no noise, so single rows may show. Give a finite epsilon. "
    if seeded:
        text += (
            "random_state is an integer, and whoever knows it can subtract the noise. Leave it at None. scikit-learn's "
            "meta-estimators, such as BaggingClassifier, set an integer in their members although nobody asked for it: "
            'docs/threat-model.md, "Ensembles", shows one that is private'
        )
    warnings.warn(f"this fit or score is NOT private: {text.strip()}", NotPrivateWarning, stacklevel=stacklevel + 1)


@dataclass(frozen=True)
class PrivacySpent:
    """The guarantee of one fit, and its releases.

    ``epsilon``, ``delta``, ``rho`` (None where there is none) and ``limit`` are the cap that was fixed *before* the
    fit: they are the guarantee. ``charged`` is what the run used. Where a run stops depends on the data, so ``charged``
    is not a guarantee. ``limit``, ``charged`` and the costs in ``releases`` are amounts of ``currency``.

    Parameters
    ----------
    adjacency : {"zero-out", "replace"}
        Which data sets are neighbours.
    private : bool
        False when the noise came from a seed that somebody knows; the guarantee then does not hold.
    releases : tuple of (label, count, cost)
        What was released, how often and at which price each.
    complete : bool, default=True
        False if the fit has no model, because it ended in an error or was interrupted. Its releases up to then count
        like those of any other fit.
    columns : tuple of (name, kind)
        The columns of a raw table, and how each was read; empty for a table of numbers. They count as public.
    unit : str, default="row"
        What is protected: "row", or a person with all rows that have the same id. A person is named after the column of
        ids or after the unit of the ledger; where there is no such name, it is a "person".
    weighted : bool, default=False
        Whether rows had weights of their own (``sample_weight``). The guarantee then rests on how they were made.
    held_out : bool, default=False
        Whether a model that was there already was judged on held-out rows, whom the guarantee is for. It says nothing
        about the rows that the model was fitted on.
    entry, ledger : str or None, default=None
        The id of the entry in the ledger that the fit was recorded in, and the identity of that ledger
        (:meth:`PrivacyLedger.find <dpsk.PrivacyLedger.find>`). None without a ledger. Both are random names, so reports
        that differ in nothing else are equal.
    n_rows, n_units : int or None, default=None
        The numbers of rows and, where persons are protected, of persons. Both are public. None where they are not
        known: for a fit that has no model, and for reports that were pickled by older versions.
    """

    epsilon: float
    delta: float
    rho: float | None
    currency: Currency
    limit: float
    charged: float
    adjacency: str
    private: bool
    releases: tuple[Release, ...] = ()
    complete: bool = True
    columns: tuple[tuple[str, str], ...] = ()
    unit: str = ROW
    weighted: bool = False
    held_out: bool = False
    entry: str | None = field(default=None, compare=False)
    ledger: str | None = field(default=None, compare=False)
    n_rows: int | None = None
    n_units: int | None = None

    def __post_init__(self) -> None:
        Adjacency(self.adjacency)  # or its error
        as_unit(self.unit)

    @classmethod
    def of(cls, ledger: Ledger, *, adjacency: str, private: bool, complete: bool = True) -> PrivacySpent:
        """Return the frozen report of a ledger, whose unit is that of the report."""
        budget = ledger.budget
        return cls(
            epsilon=budget.epsilon,
            delta=budget.delta,
            rho=budget.currency.rho(budget.limit),
            currency=budget.currency,
            limit=budget.limit,
            charged=ledger.charged,
            adjacency=adjacency,
            private=private,
            releases=ledger.releases,
            complete=complete,
            unit=ledger.unit,
            entry=ledger.recorded.entry,
            ledger=ledger.recorded.ledger,
        )

    @classmethod
    def nothing_promised(
        cls, delta: float, adjacency: str, unit: str = ROW, recorded: Recorded | None = None
    ) -> PrivacySpent:
        """Return the report of a fit without noise, at epsilon = inf."""
        inf, named = math.inf, {} if recorded is None else asdict(recorded)
        promise: Any = {"adjacency": adjacency, "private": False, "unit": unit}
        return cls(inf, float(delta), inf, GaussianDP(), limit=inf, charged=inf, **promise, **named)

    @property
    def discovery(self) -> Discovery | None:
        """The discovery of values that a part of delta pays for; None if there is none."""
        return self.currency.discovery if isinstance(self.currency, GaussianDP) else None

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon guaranteed at another delta; inf where there is none."""
        if not 0 <= delta < 1:
            raise ValueError(f"delta={delta!r} must lie in [0, 1)")
        if math.isinf(self.limit):
            return math.inf
        return self.currency.epsilon(self.limit, delta)

    def delta_at(self, epsilon: float) -> float:
        """Return the delta guaranteed at another epsilon."""
        if math.isinf(self.limit):
            return 1.0
        return self.currency.delta(self.limit, epsilon)

    def epsilon_for_group(self, size: int) -> float:
        """Return the epsilon that protects any ``size`` units together, at this report's delta."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"size={size!r} must be a positive integer")
        if size == 1 or math.isinf(self.limit):
            return self.epsilon
        if self.delta == 0:  # k steps from neighbour to neighbour (Dwork & Roth 2014, Theorem 2.2)
            return above(size * Fraction(self.epsilon))
        return self.currency.epsilon_for_group(self.limit, self.delta, size)

    def statement(self) -> str:
        """Return a paragraph for a report: unit, neighbours, guarantee, what counts as public, groups of units."""
        where = "" if self.entry is None else f" It is entry {self.entry} of the ledger {self.ledger}."
        return self._promise() + where

    def _promise(self) -> str:
        if not self.complete:
            return self._without_model()
        if math.isinf(self.limit):
            return (
                "NOT PRIVATE: epsilon is infinite, so this model was trained on the exact data without any noise. It "
                f"may reveal individual {several(self.unit)} and must not be released as a private model."
            )
        if not self.private:
            return (
                "NOT PRIVATE: the noise was generated from a known seed (random_state), so whoever knows the seed can "
                f"subtract it. With system randomness the same fit would have kept {self._guarantee()}."
            )
        if self.held_out:
            return self._of_held_out()
        return (
            f"This model was trained with {self._guarantee()}. The unit of protection is {self._defined()}; two data "
            f"sets are neighbours when {self._neighbours()}. Treated as public, and not protected: {self._public()}, "
            f"and every parameter of the {'search' if self._is_search() else 'estimator'}. {self._discovered()}"
            f"{self._groups()}{self._weights()}"
            f"{STEPS_AND_TIMING}Other fits on the same data, such as a model selection, add to it."
        )

    def _of_held_out(self) -> str:
        return (
            f"A model was judged on held-out rows with {self._guarantee()} for these rows. The unit of protection is "
            f"{definition(self.unit)}; two data sets are neighbours when {self._neighbours()}. {self._groups()}Nothing "
            "is promised about the rows that the model was fitted on: its own report is for them. Other releases from "
            "the held-out rows, fits included, add to it."
        )

    def _weights(self) -> str:
        if not self.weighted:
            return ""
        of_unit = "that row" if self.unit == ROW else f"the {self.unit}'s own rows"
        return f"Rows had weights. The guarantee holds if each weight depends on {of_unit} alone. "

    def _without_model(self) -> str:
        what = "search came to nothing" if self._is_search() else "fit ended in an error"
        text = f"NO MODEL: this {what}, or was interrupted, and released no model. "
        if not self.private:
            return text + "What it released before was NOT PRIVATE: its noise came from a known seed (random_state)."
        return text + (
            f"What it released before took {100 * self.charged / self.limit:.1f}% of its budget and keeps "
            f"{self._guarantee()} for each {self.unit}. Neighbours differ in that {self._neighbours()}. "
            f"{self._discovered()}Other fits on the same data add to it."
        )

    def _defined(self) -> str:
        return f"{definition(self.unit)}{' of the training data' if self.unit == ROW else ''}"

    def _neighbours(self) -> str:
        return Adjacency(self.adjacency).words(self.unit)

    def _guarantee(self) -> str:
        text = f"({round_up(self.epsilon, 4)}, {round_up(self.delta, 3)})-differential privacy"
        if self.delta == 0:
            text = f"pure {round_up(self.epsilon, 4)}-differential privacy (delta = 0)"
        if self._is_search():
            return (
                f"{text} (as the best of a secret number of fits; that it was chosen, and its parameters, are covered)"
            )
        if self.delta == 0:
            return text
        if isinstance(self.currency, RenyiDP):
            return f"{text} (Rényi divergence of order {self.currency.order:g} at most {round_up(self.limit, 4)})"
        return text if self.rho is None else f"{text} ({round_up(self.rho, 4)}-zCDP)"

    def _public(self) -> str:
        counted = "the number of rows" if self.unit == ROW else f"the number of rows and of {several(self.unit)}"
        if not self.columns:
            widths = " and of columns" if self.unit == ROW else ", the number of columns"
            return f"{counted}{widths}, the set of class labels, that all values are finite"
        kinds = dict[str, list[str]]()
        for name, kind in self.columns:
            kinds.setdefault(kind, []).append(name)
        listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
        return f"{counted}, the set of class labels, the names and kinds of the columns ({listed})"

    def _is_search(self) -> bool:
        return isinstance(self.currency, BestOf)

    def _discovered(self) -> str:
        if self.discovery is None:
            return ""
        return (
            f"Of delta, {round_up(self.discovery.failure, 3)} is for the discovery of values: for each {self.unit}, "
            "with at most this probability a value that it alone has appears in the model. "
        )

    def _groups(self) -> str:
        try:
            two, ten = (self._epsilon_in_words(k) for k in (2, 10))
        except ValueError:
            if self.unit == ROW:
                return "Nothing is stated for a person who contributed several rows, who is protected less. "
            return f"Nothing is stated for two {several(self.unit)} together, who are protected less. "
        return (
            f"{group_protected_less(self.unit)} protected less: at the same delta epsilon is {two} for 2 "
            f"{several(self.unit)} and {ten} for 10. "
        )

    def _epsilon_in_words(self, size: int) -> str:
        epsilon = self.epsilon_for_group(size)
        if epsilon == math.inf and self.discovery is not None:  # values that only these units have
            chance = round_up(self.discovery.of_group(size), 3)
            return f"infinite (a value that only they have may appear with a probability of {chance})"
        return round_up(epsilon, 3)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python values, ready for JSON (what is infinite becomes None)."""
        plain = asdict(self)
        plain["currency"] = self.currency.name
        plain["discovery"] = None if self.discovery is None else asdict(self.discovery)
        plain["releases"], plain["columns"] = list(plain["releases"]), dict(self.columns)
        return {k: None if isinstance(v, float) and math.isinf(v) else v for k, v in plain.items()}

    def __repr__(self) -> str:
        if math.isinf(self.limit):
            return "PrivacySpent(epsilon=inf, private=False; no noise was added)"
        used = 100 * self.charged / self.limit
        count = sum(release.count for release in self.releases)
        part = "" if self.discovery is None else f" ({round_up(self.discovery.failure, 3)} of it for a discovery)"
        unit = "" if self.unit == ROW else f"unit={self.unit!r}, "
        return (
            f"PrivacySpent(epsilon={round_up(self.epsilon, 4)}, delta={round_up(self.delta, 3)}{part}, "
            f"adjacency={self.adjacency!r}, {unit}private={self.private}; {count} releases used {used:.1f}% of "
            f"{self.limit:.4g} {self.currency.name}{'' if self.complete else '; no model came of it'})"
        )


def round_up(value: float, digits: int) -> str:
    """Return ``value`` with this many significant digits, rounded up: a report never promises more than the fit."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(unit, ROUND_CEILING)):.{digits}g}"
