"""What an audit has found, in words, in a table, in a picture, and as plain values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..privacy.report import round_up
from ..reports.audited_promise import neighbours_in_words
from ..reports.versions import installed_versions
from ..reports.visible import html_text
from ..reports.wording import AUDITS, LEAST_SHOWN, MADE_DATA, SEEN, proved_words
from .audit_display import AuditDisplay
from .claims import Claim
from .finding import Finding
from .finding_words import broken, by_a_leak, confidence_words, leaks_in_words, strongest_in_words

_CLOSE = 0.8  # of the claim: from here on the statement says that this is no danger


@dataclass(frozen=True, repr=False)
class AuditResult:
    """What attacks on the fits of an estimator have found.

    Parameters
    ----------
    claim : Claim
        The promise that was attacked.
    findings : tuple of Finding
        What each attack has found.
    confidence : float
        How sure all findings are, together: with this probability each of their bounds is true.
    estimator : str
        What was attacked, by its name and its parameters.
    unit : str
        What is protected: "row", or the name of a person.
    adjacency : str
        Which data sets are neighbours.
    seconds : float
        How long the audit took.
    data : str
        What the fits were made on: "made data", or another phrase for data that were given.
    versions : mapping
        Versions of dpsk, scikit-learn, NumPy, SciPy and Python.
    notes : tuple of str, default=()
        Which attacks could not be made, and why.

    Formal guarantee
    ----------------
    (docs/guarantees.md, 17.10)
    With probability ``confidence`` or more, over the noise of all fits: if the promise is true, ``refuted`` is false,
    and every true promise of its kind has at least ``epsilon``, at the delta of the claim.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    confidence: float
    estimator: str
    unit: str
    adjacency: str
    seconds: float
    data: str
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence={self.confidence!r} must lie between 0 and 1")
        for one in self.findings:
            if not one.epsilon >= 0:
                raise ValueError(f"epsilon={one.epsilon!r} of the attack {one.attack!r} is no bound: it must be >= 0")

    @property
    def epsilon(self) -> float:
        """The largest lower bound on epsilon that is proved; 0 where nothing is."""
        return max((one.epsilon for one in self.findings), default=0.0)

    @property
    def strongest(self) -> Finding | None:
        """The attack that proves most; None if there was no attack."""
        return max(self.findings, key=self._strength, default=None)

    @property
    def refuted(self) -> bool:
        """Whether the promise is false."""
        return any(broken(one, self.claim) for one in self.findings)

    @property
    def leaks(self) -> tuple[str, ...]:
        """What showed without any noise, a sentence each."""
        return tuple(dict.fromkeys(leak for one in self.findings for leak in one.leaks))

    @property
    def fits(self) -> int:
        """How many fits the attacks have looked at, all together."""
        return sum(one.fits for one in self.findings)

    def _strength(self, one: Finding) -> tuple[bool, float, float]:
        return broken(one, self.claim), one.epsilon, one.estimate or 0.0

    def statement(self) -> str:
        """Return a paragraph: what was attacked, what is proved, and what an audit cannot prove."""
        sure = confidence_words(self.confidence)
        if self.refuted:
            said = f"REFUTED: the promise of {self.estimator}, {self._promised()}, is false. {self._proof(sure)}"
        else:
            said = f"The audit did not refute the promise of {self.estimator}, {self._promised()}. {self._bound(sure)}"
        return f"{said}{leaks_in_words(self.leaks)}{self._made()}{AUDITS}"

    def _promised(self) -> str:
        pair = f"epsilon = {round_up(self.claim.epsilon, 4)}"
        if self.claim.delta:
            pair += f" at delta = {round_up(self.claim.delta, 3)}"
        return f"{pair} for each {self.unit}"

    def _proof(self, sure: str) -> str:
        best = self.strongest
        if best is None:
            return ""
        if self._by_a_leak:
            return f'Data sets that differ in "{best.pair}" show it. '
        if best.epsilon > self.claim.epsilon:
            needed = (
                "No finite epsilon is true"
                if math.isinf(best.epsilon)
                else f"Epsilon is at least {proved_words(best.epsilon)}"
            )
        else:
            needed = "What the attack has counted contradicts it"
        early = "An attack stops as soon as the promise is broken, so epsilon may be far larger. "
        more = early if best.attack == "model" and math.isfinite(best.epsilon) else ""
        return f"{needed}, with {sure} confidence. {more}{strongest_in_words(best)}"

    @property
    def _by_a_leak(self) -> bool:
        """Whether what showed without noise refutes the promise, and what was counted does not."""
        alone = [one for one in self.findings if broken(one, self.claim) and not by_a_leak(one, self.claim)]
        return bool(self.leaks) and not alone

    def _bound(self, sure: str) -> str:
        best = self.strongest
        if best is None:
            return "There was no attack. "
        if best.epsilon < LEAST_SHOWN:
            least = f"{LEAST_SHOWN:g}" if best.epsilon else "0"
            return f"No attack proves an epsilon above {least}, with {sure} confidence. "
        delta = " at this delta" if self.claim.delta else ""
        text = f"With {sure} confidence, epsilon{delta} is at least {proved_words(best.epsilon)}. "
        if best.epsilon >= _CLOSE * self.claim.epsilon:
            text += "That is no sign of danger. Close to the claim means that little of the budget is wasted. "
        text += strongest_in_words(best)
        if best.estimate is not None and best.epsilon < best.estimate < math.inf:
            text += f"With infinitely many fits this attack would prove about {best.estimate:.3g}. "
        return text

    def _made(self) -> str:
        attacks, fits = _several(len(self.findings), "attack"), _several(self.fits, "fit")
        secret = "" if self.data == MADE_DATA else " It was computed from these without noise, so it tells about them."
        return (
            f"{attacks} looked at {fits} in {_several(round(self.seconds), 'second')}, on pairs of data "
            f"sets that are neighbours ({neighbours_in_words(self.adjacency, self.unit)}). {self._left_out()}"
            f"The audit was made on {self.data}.{secret} "
        )

    def _left_out(self) -> str:
        """Return how many pairs of data sets, and how many attacks, were left out."""
        counted = [re.match(r"(\d+) of \d+ pairs\b", note) for note in self.notes]
        pairs = sum(int(found[1]) for found in counted if found is not None)
        attacks = sum(found is None for found in counted)
        left = [_several(pairs, "pair") + " of data sets"] * (pairs > 0) + [_several(attacks, "attack")] * (attacks > 0)
        were = "was" if pairs + attacks == 1 else "were"
        return f"{' and '.join(left)} {were} left out (result.notes). " if left else ""

    def check(self) -> None:
        """Raise AssertionError with the statement if the promise is false; for tests."""
        if self.refuted:
            raise AssertionError(self.statement())

    def plot(self, ax: Any = None) -> AuditDisplay:
        """Draw the claim and what each attack proves, in these axes or in a new figure."""
        return AuditDisplay.from_result(self, ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, ready for JSON.

        A bound that is infinite is None. An estimate is None where there is none, or where it is infinite.
        """
        best = self.strongest
        return {
            "refuted": self.refuted,
            "epsilon": _finite(self.epsilon),
            "confidence": float(self.confidence),
            "claim": {"epsilon": float(self.claim.epsilon), "delta": float(self.claim.delta)},
            "estimator": self.estimator,
            "unit": str(self.unit),
            "adjacency": str(self.adjacency),
            "data": self.data,
            "fits": int(self.fits),
            "seconds": float(self.seconds),
            "strongest": None if best is None else self.findings.index(best),
            "findings": [self._plain(one) for one in self.findings],
            "leaks": list(self.leaks),
            "notes": list(self.notes),
            "versions": dict(self.versions),
        }

    def _plain(self, one: Finding) -> dict[str, Any]:
        numbers = {
            "epsilon": _finite(one.epsilon),
            "refuted": broken(one, self.claim),
            "fits": int(one.fits),
            "seconds": float(one.seconds),
            "estimate": None if one.estimate is None else _finite(one.estimate),
        }
        return one.to_dict() | numbers

    def __repr__(self) -> str:
        proved = proved_words(self.epsilon)
        claim = f"claim: {round_up(self.claim.epsilon, 4)} at delta={round_up(self.claim.delta, 3)}"
        if self._by_a_leak:
            return f"<AuditResult: REFUTED by a leak ({claim}), {_several(self.fits, 'fit')}>"
        said = "REFUTED" if self.refuted else "not refuted"
        sure = confidence_words(self.confidence)
        least = "epsilon is" if math.isinf(self.epsilon) else "epsilon >="
        return f"<AuditResult: {said}; {least} {proved} ({sure} sure; {claim}), {_several(self.fits, 'fit')}>"

    def _repr_html_(self) -> str:
        cells = ("attack", "pair", "epsilon at least", "claim", "fits", "seconds")
        head = "".join(f'<th scope="col">{cell}</th>' for cell in cells)
        rows = ""
        for one in sorted(self.findings, key=self._strength, reverse=True):
            proved = SEEN if by_a_leak(one, self.claim) else proved_words(one.epsilon)
            proved += " (promise broken)" if broken(one, self.claim) else ""
            claim = round_up(self.claim.epsilon, 4)
            values = (one.attack, one.pair, proved, claim, f"{one.fits:,}", f"{one.seconds:.1f}")
            rows += "<tr>" + "".join(f"<td>{html_text(value)}</td>" for value in values) + "</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{html_text(self.statement())}</p>"


def _several(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
