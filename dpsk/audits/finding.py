"""What one attack on one pair of data sets has found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """The result of one attack.

    Parameters
    ----------
    attack : str
        Which attack: "transcript", "model" or "one run".
    pair : str
        How the two data sets differ.
    epsilon : float
        Every true promise of the kind that was made has at least this epsilon, at the delta of the claim.
    refuted : bool
        Whether the promise of the fit is false.
    fits : int
        How many fits the attack has looked at.
    seconds : float
        How long it took.
    seen : str
        What the attacker looked at, as a sentence.
    premise : str, default=""
        What has to be true for ``epsilon`` beside the counts; empty if nothing.
    estimate : float or None, default=None
        The epsilon that the attack would prove with infinitely many fits, if what it sees is Gaussian.
    leaks : tuple of str, default=()
        What showed without any noise, a sentence each. The promise is false if there is one.
    """

    attack: str
    pair: str
    epsilon: float
    refuted: bool
    fits: int
    seconds: float
    seen: str
    premise: str = ""
    estimate: float | None = None
    leaks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "leaks": list(self.leaks)}
