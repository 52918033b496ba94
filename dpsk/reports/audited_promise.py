"""Whether an audit was of the promise that a report makes: an attack on another one says nothing about it."""

from __future__ import annotations

import math
import re
from typing import Any

from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.units import ROW

_Pair = tuple[float, float]


def attacked(audit: dict[str, Any] | None) -> _Pair | None:
    """Return the epsilon and delta that an audit attacked; None if it does not tell."""
    result = audit["result"] if audit is not None else None
    claim = result.get("claim") if isinstance(result, dict) else None
    numbers: list[Any] = [claim.get(name) for name in ("epsilon", "delta")] if isinstance(claim, dict) else []
    if len(numbers) != 2 or not all(isinstance(one, int | float) and one >= 0 for one in numbers) or not numbers[0]:
        return None
    return float(numbers[0]), float(numbers[1])


def judged(audit: dict[str, Any], report: dict[str, Any], subject: str) -> dict[str, Any]:
    """Return the audit with ``refuted`` for the promise of this report, and with its ``mismatch`` or None.

    ``subject`` is the name of the class that the report was given: a pipeline is no layer of its model. What an audit
    does not tell is not compared. A larger claim belongs to a fit with less noise, so what was proved of that fit is no
    proof against this one.
    """
    guarantees = report["guarantees"]
    same = [one for one in guarantees if _same_kind(audit["result"], one, report, subject)]
    claim = attacked(audit)
    if not same:
        return {**audit, "refuted": False, "mismatch": _other_kind(audit, report)}
    name = _name(audit["result"])
    same = [one for one in same if one["of"] == name] or same  # held-out rows have a promise of their own
    made = [(float(one["epsilon"]), float(one["delta"])) for one in same if one["epsilon"] is not None]
    if claim is None or not made or any(_close(claim, pair) for pair in made):
        return {**audit, "mismatch": None}
    proved = _proved(audit["result"])
    beyond = [pair for pair in made if proved > pair[0] * (1 + 1e-6) and claim[1] >= pair[1]]
    refuted = audit["refuted"] and any(claim[0] <= pair[0] for pair in beyond)
    mismatch = None if refuted else _other_claim(claim, made[0], audit["refuted"], bool(beyond))
    return {**audit, "refuted": refuted, "mismatch": mismatch}


def _same_kind(result: Any, one: dict[str, Any], report: dict[str, Any], subject: str) -> bool:
    """Return whether an audit was of such a model, and of a promise to the same units with the same neighbours."""
    told = _told(result)
    names = {subject, *(layer["class"] for layer in report["subject"]["layers"])}
    return (
        ("estimator" not in told or _name(result) in names)
        and told.get("unit", one["unit"]) == one["unit"]
        and (one["adjacency"] is None or told.get("adjacency", one["adjacency"]) == one["adjacency"])
    )


def _told(result: Any) -> dict[str, str]:
    names = ("estimator", "unit", "adjacency")
    known = result if isinstance(result, dict) else {}
    return {name: str(known[name]) for name in names if isinstance(known.get(name), str)}


def _name(result: Any) -> str:
    """Return the class that was audited, without its parameters."""
    return re.split(r"\W", _told(result).get("estimator", ""), maxsplit=1)[0]


def _other_kind(audit: dict[str, Any], report: dict[str, Any]) -> str:
    """Return in a sentence that the audit was of something else."""
    told, one = _told(audit["result"]), report["guarantees"][0]
    unit = told.get("unit", one["unit"])
    name = re.sub(r"\(.*", "", told.get("estimator", "a model"), flags=re.S)
    audited, here = f"{name} for each {unit}", f"{_called(report)} for each {one['unit']}"
    neighbours = told.get("adjacency", one["adjacency"])
    if neighbours != one["adjacency"] and one["adjacency"] is not None:
        audited += f" ({neighbours_in_words(neighbours, unit)})"
        here += f" ({neighbours_in_words(one['adjacency'], one['unit'])})"
    text = f"The audit was of {audited}, {here}."
    return f"{text} It refuted another promise than the one made here." if audit["refuted"] else text


def _called(report: dict[str, Any]) -> str:
    names = " of ".join(report["subject"]["names"])
    if report["subject"]["kind"] == "ledger":
        return f"this report is of the {names}"
    return f"this model is {'an' if names[0] in 'AEIOU' else 'a'} {names}"


def neighbours_in_words(adjacency: str, unit: str) -> str:
    """Return which data sets are neighbours; other libraries may have neighbours of their own."""
    if adjacency in list(Adjacency):
        return Adjacency(adjacency).words(unit)
    if adjacency == "add-remove":
        return f"one {unit}{'' if unit == ROW else ', with all rows,'} is added or removed"
    if adjacency == "replace or add-remove":
        return f"one {unit} is replaced; it counts as two changes, since the fit does not name its neighbours"
    return adjacency


def _other_claim(claim: _Pair, made: _Pair, refuted: bool, beyond: bool) -> str:
    """Return in a sentence that the audit was of another epsilon or delta."""
    text = f"The audit attacked {_pair(claim)}, this report promises {_pair(made)}."
    if beyond:
        return (
            f"{text} It proves more than is promised here. If the fits that it attacked had the parameters of this "
            "model, the promise is false: audit the model with its own parameters."
        )
    return f"{text} It refuted another promise than the one made here." if refuted else text


def _pair(pair: _Pair) -> str:
    return f"epsilon = {round_up(pair[0], 4)}" + (f" at delta = {round_up(pair[1], 3)}" if pair[1] else "")


def _close(one: _Pair, other: _Pair) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(one, other, strict=True))


def _proved(result: Any) -> float:
    """Return the epsilon that an audit proved; None in its plain values says that none is finite."""
    epsilon = result.get("epsilon", 0.0) if isinstance(result, dict) else 0.0
    if epsilon is None or epsilon == "inf":
        return math.inf
    return float(epsilon) if isinstance(epsilon, int | float) else 0.0
