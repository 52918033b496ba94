"""What an audit has found, in words, in a table, in a picture, and as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.units import ROW
from ..reports.versions import installed_versions
from ..reports.visible import html_text
from ..reports.wording import AUDITS, MADE_DATA, round_down
from .audit_display import AuditDisplay, broken, confidence_words
from .claims import Claim
from .finding import Finding


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
        leaks = "".join(f"{leak.rstrip('.')}. " for leak in self.leaks)
        leaked = f"Seen without any noise: {leaks}" if leaks else ""
        return f"{said}{leaked}{self._made()}{AUDITS}"

    def _promised(self) -> str:
        pair = f"epsilon = {round_up(self.claim.epsilon, 4)}"
        if self.claim.delta:
            pair += f" at delta = {round_up(self.claim.delta, 3)}"
        return f"{pair} for each {self.unit}"

    def _proof(self, sure: str) -> str:
        best = self.strongest
        if best is None or not best.epsilon > self.claim.epsilon:
            return "" if best is None or best.leaks else f"With {sure} confidence, {_attack(best)} shows it. "
        needed = "No finite epsilon is true" if math.isinf(best.epsilon) else f"Epsilon is at least {_down(best)}"
        return f"{needed}, with {sure} confidence, as {_attack(best)} shows. {_premise(best)}"

    def _bound(self, sure: str) -> str:
        best = self.strongest
        if best is None:
            return "There was no attack. "
        if not best.epsilon:
            return f"No attack proves an epsilon above 0, with {sure} confidence. "
        delta = " at this delta" if self.claim.delta else ""
        text = f"With {sure} confidence, epsilon{delta} is at least {_down(best)}, as {_attack(best)} shows. "
        if best.estimate is not None and math.isfinite(best.estimate):
            text += f"With infinitely many fits this attack would prove about {best.estimate:.3g}. "
        return text + _premise(best)

    def _made(self) -> str:
        count = len(self.findings)
        attacks = "1 attack" if count == 1 else f"{count} attacks"
        left_out = f" {len(self.notes)} more could not be made." if self.notes else ""
        secret = "" if self.data == MADE_DATA else " It was computed from these without noise, so it tells about them."
        return (
            f"{attacks.capitalize()} looked at {self.fits:,} fits in {self.seconds:,.0f} seconds, on pairs of data "
            f"sets that are neighbours ({self._neighbours()}).{left_out} The audit was made on {self.data}.{secret} "
        )

    def _neighbours(self) -> str:
        if self.adjacency in list(Adjacency):
            return Adjacency(self.adjacency).words(self.unit)
        if self.adjacency == "add-remove":
            return f"one {self.unit}{'' if self.unit == ROW else ', with all rows,'} is added or removed"
        return self.adjacency

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
        said = "REFUTED" if self.refuted else "not refuted"
        proved = "infinite" if math.isinf(self.epsilon) else round_down(self.epsilon, 3)
        claim = f"claim: {round_up(self.claim.epsilon, 4)} at delta={round_up(self.claim.delta, 3)}"
        sure = confidence_words(self.confidence)
        return f"<AuditResult: {said}; epsilon >= {proved} ({sure} sure; {claim}), {self.fits} fits>"

    def _repr_html_(self) -> str:
        cells = ("attack", "pair", "epsilon at least", "claim", "fits", "seconds")
        head = "".join(f'<th scope="col">{cell}</th>' for cell in cells)
        rows = ""
        for one in sorted(self.findings, key=self._strength, reverse=True):
            proved = f"{_down(one)} (promise broken)" if broken(one, self.claim) else _down(one)
            claim = round_up(self.claim.epsilon, 4)
            values = (one.attack, one.pair, proved, claim, f"{one.fits:,}", f"{one.seconds:.1f}")
            rows += "<tr>" + "".join(f"<td>{html_text(value)}</td>" for value in values) + "</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{html_text(self.statement())}</p>"


def _attack(one: Finding) -> str:
    return f'the attack "{one.attack}" on the pair "{one.pair}" ({one.seen.rstrip(".")})'


def _premise(one: Finding) -> str:
    return f"This bound has a premise: {one.premise.rstrip('.')}. " if one.premise else ""


def _down(one: Finding) -> str:
    return "infinite" if math.isinf(one.epsilon) else round_down(one.epsilon, 3)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
