"""What the papers say of their experiments, each statement checked against what was measured here.

A statement about several cells (data set x epsilon) has to hold in all of them, "in most cases" in more than half. The
threshold of a word like "slightly" stands in the check beside it; how chance is told from effect stands in evidence.py.
"""

from __future__ import annotations

from ..evidence import NotMeasured, Verdict
from ..experiment import write
from ..table import markdown
from . import chen_lee, lee_kifer, lowy_gao
from .cells import Checked, Claim

__all__ = ["CLAIMS", "report"]

CLAIMS = (*lee_kifer.CLAIMS, *chen_lee.CLAIMS, *lowy_gao.CLAIMS)


def checked(claim: Claim) -> Checked:
    try:
        return claim.check()
    except NotMeasured as error:
        return Verdict.UNTESTABLE, f"not at this number of repeats: {error}"


def report() -> None:
    verdicts = {claim: checked(claim) for claim in CLAIMS}
    counts = {kind: sum(verdict is kind for verdict, _ in verdicts.values()) for kind in Verdict}
    lines = []
    for claim, (verdict, text) in verdicts.items():
        remark = f". Here: {claim.remark}" if claim.remark else ""
        lines.append([claim.paper, claim.text, verdict.value, f"{text}{remark}"])
    write(
        "claims",
        counts=", ".join(f"{count} {kind.value}" for kind, count in counts.items()),
        table=markdown(["paper", "claim", "verdict", "number"], lines),
    )
