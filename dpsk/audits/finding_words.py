"""Findings in words: the strongest attack, leaks, and numbers as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..reports.wording import round_down
from .claims import Claim
from .finding import Finding

_MOST = 3  # leaks in a statement

_SAW = {
    "transcript": (
        "The strongest attack saw the transcript of each fit: every number that the fit released, with its value "
        "before noise. "
    ),
    "model": "The strongest attack saw fitted models only. ",
    "one run": "The strongest attack saw a single model, fitted to rows with labels that coins had chosen. ",
}
_MODELS = "Fitted models alone: "


def broken(one: Finding, claim: Claim) -> bool:
    """Return whether this attack shows that the promise is false."""
    return bool(one.refuted or one.leaks or one.epsilon > claim.epsilon * (1 + 1e-6))


def by_a_leak(one: Finding, claim: Claim) -> bool:
    """Return whether what showed without noise breaks the promise, and the epsilon that was counted does not."""
    return bool(one.leaks) and one.epsilon <= claim.epsilon * (1 + 1e-6)


def confidence_words(confidence: float) -> str:
    """Return a confidence in per cent, with all its digits."""
    return f"{round_down(100 * confidence, 12)} %"


def strongest_in_words(best: Finding) -> str:
    """Return in sentences what the strongest attack saw, on which data sets, and what its bound rests on."""
    seen = best.seen.rstrip(".")
    if seen.startswith(_MODELS):
        first, _, rest = seen.removeprefix(_MODELS).partition(". ")
        saw = f"The strongest attack saw fitted models only: {first}. "
        seen = rest
    else:
        saw = _SAW.get(best.attack, f'The strongest attack is called "{best.attack}". ')
        seen = f"It read {seen}" if best.attack == "transcript" else seen
    seen = f"{seen[:1].upper()}{seen[1:]}. " if seen else ""
    premise = f"This bound has a premise: {best.premise.rstrip('.')}. " if best.premise else ""
    return f'{saw}The data sets differ in "{best.pair}". {seen}{premise}'


def leaks_in_words(leaks: Sequence[str]) -> str:
    """Return some leaks, one of each attribute, and how many more there are."""
    of_each = dict[str, str]()
    for leak in leaks:
        of_each.setdefault(_attribute(leak), leak)
    shown = list(of_each.values())[:_MOST]
    if not shown:
        return ""
    more = f"And {len(leaks) - len(shown)} more (result.leaks). " if len(leaks) > len(shown) else ""
    return "Seen without any noise: " + "".join(f"{leak.rstrip('.')}. " for leak in shown) + more


def _attribute(leak: str) -> str:
    """Return what a leak is about: the first attribute that it names, or else its words without numbers."""
    named = re.search(r"(?:\bresult |\bmodel)(\.\w+)", leak)
    return named[1] if named else re.sub(r"\d[\w.+-]*", "#", leak)
