"""The sentences of a report: what a guarantee means, whom one has to trust, and what is not covered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

from ..privacy.neighbours import Adjacency
from ..privacy.report import round_up
from ..privacy.rounding import up
from ..privacy.units import ROW, definition, group_protected_less, several

AUDITS = "An audit can show that a promise is broken. It cannot show that it is kept."
"""What has to be said of every audit."""

MADE_DATA = "made data"
"""What an audit was made on that tells about nobody's rows."""

SEEN = "seen without noise"
"""What a picture says of an attack that needed no counting."""

LEAST_SHOWN = 1e-3
"""The smallest epsilon of an attack that is shown; a bound below it is shown as 0."""

WEAK = 0.95
"""How sure an attacker who was 50 % sure may become before a report calls the guarantee weak."""


def percent(part: float) -> str:
    """Return a part in per cent, rounded up to a tenth: an attacker is never made weaker than he is."""
    return f"{math.ceil(Fraction(part) * 1000) / 10:g} %"


def percent_down(part: float) -> str:
    """Return a part in per cent, rounded down to a tenth: what is left is never made more than it is."""
    return f"{math.floor(Fraction(part) * 1000) / 10:g} %"


def round_down(value: float, digits: int) -> str:
    """Return what is left with this many significant digits, never more than it is."""
    if not value > 0:
        return f"{value:g}"
    exact = Decimal(repr(float(value)))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_FLOOR)):.{digits}g}"


def proved_words(epsilon: float) -> str:
    """Return the epsilon that an attack proves with three digits, rounded down."""
    if math.isinf(epsilon):
        return "infinite"
    return round_down(epsilon, 3) if epsilon >= LEAST_SHOWN else "0"


def title_of(about: dict[str, Any]) -> str:
    """Return the title of a report that was given none."""
    return f"Privacy report: {' of '.join(about['names'])}"


def warnings_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield what has to be known before anything else; a report with one of these is not simply private."""
    judged = report["evaluation"]
    for one in report["guarantees"]:
        if one["state"] in _NOT_PRIVATE:
            yield f"NOT PRIVATE: {one['of']} {_NOT_PRIVATE[one['state']]} No promise is made for its {one['about']}."
    if judged is not None and judged["state"] != "private":
        yield (
            "NOT PRIVATE: the evaluation below had noise from a known seed (random_state), which can be subtracted. No "
            "promise is made for the rows it was made on."
        )
    if report["audit"] is not None and report["audit"]["refuted"]:
        yield (
            "AUDIT: the promise is refuted. Attacks on such fits have shown that what is claimed below is not true. "
            "Do not release the model. The section Audit tells what was found."
        )
    for one in report["guarantees"]:
        if one["state"] == "no model":
            yield f"NO MODEL: {one['of']} ended in an error, or was interrupted. What it had released by then counts."
        if one["state"] == "none":
            yield (
                f"NO GUARANTEE for the rows that {one['of']} learned from: it says nothing about privacy. That is "
                "harmless only if these rows were public."
            )
    learned = [step["name"] for step in report["subject"]["steps"] if step["learned"]]
    if learned:
        yield (
            f"NO GUARANTEE for what steps in front of the model may have learned from the rows: {', '.join(learned)}. "
            "dpsk.check_pipeline tells why."
        )


_NOT_PRIVATE = {
    "seeded": "had noise from a known seed (random_state). Whoever knows the seed can subtract the noise.",
    "broken": "records fits whose noise came from a known seed, or that had none. They void its guarantee.",
    "no noise": "was fitted on the exact data without any noise (epsilon is infinite).",
}


def doubts_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield what makes a guarantee weak."""
    data = report["data"]
    for one in report["guarantees"]:
        for belief in one["attacker"]:
            if belief["before"] == 0.5 and belief["mostly"] >= WEAK:
                yield (
                    f"WEAK: the guarantee of {one['of']} lets an attacker who was 50 % sure {_question(one)} become "
                    f"{percent(belief['mostly'])} sure, in all but 1 of 1,000 cases."
                )
    judged = report["evaluation"]
    if judged is not None and judged["epsilon"] and judged["epsilon"] >= math.log(WEAK / (1 - WEAK)):
        sure = percent(up(1 / (1 + math.exp(-judged["epsilon"]))))
        yield f"WEAK: the evaluation lets an attacker who was 50 % sure {_question(judged)} become {sure} sure."
    if report["audit"] is not None:
        yield from _doubts_of_audit(report["audit"])
    n = data["n_units"] or data["n_rows"]
    main = report["guarantees"][0]
    if n and main["delta"] and main["delta"] * n > 1:
        yield (
            f"WEAK: delta is {round_up(main['delta'], 3)}, more than 1 in {n} {several(main['unit'])}. A method that "
            f"publishes a random {main['unit']} would keep such a promise."
        )


def _doubts_of_audit(audit: dict[str, Any]) -> Iterator[str]:
    if audit["mismatch"]:
        yield f"AUDIT: {audit['mismatch'][0].lower()}{audit['mismatch'][1:]}"
    result = audit["result"]
    if isinstance(result, dict) and result.get("data", MADE_DATA) != MADE_DATA:
        yield (
            "AUDIT: the audit was computed without noise from data that were given to it. Publish it only if these are "
            "public; audit on made data otherwise."
        )


def promise(one: dict[str, Any]) -> str:
    """Return the guarantee in a sentence for people."""
    unit = one["unit"]
    words = Adjacency(one["adjacency"]).words(unit)
    one_is = "" if unit == ROW else f"The unit is {definition(unit)}. "
    otherwise = "been another one" if one["adjacency"] == Adjacency.REPLACE else "not counted"
    return (
        f"Whoever sees everything that was released learns almost the same as if one {unit} had {otherwise}. "
        f"{one_is}Precisely: compare two data sets, where {words}. No "
        f"outcome has much more probability under one than under the other. Released {_released(one)}, and this report."
    )


def _released(one: dict[str, Any]) -> str:
    if one["about"] == "everything recorded":
        return "is all that the recorded fits and scores returned"
    return "are the model, its predictions for any input"


def meaning(one: dict[str, Any], data: dict[str, Any]) -> Iterator[str]:
    """Yield what the numbers of a guarantee mean."""
    epsilon, delta, unit = one["epsilon"], one["delta"], one["unit"]
    limit = "hardly has a limit"
    if epsilon < 30:
        limit = f"is at most {float(round_up(up(math.exp(epsilon)), 3)):,.15g}"
    more = f", and adds at most delta = {round_up(delta, 3)} to it" if delta else ""
    yield (
        f"Epsilon = {round_up(epsilon, 4)}: taking part multiplies the probability of anything that can be seen by "
        f"a factor that {limit}{more}. Smaller is safer; 0 would say that nothing was learned."
    )
    if delta:
        n = data["n_units"] or data["n_rows"]
        beside = f" Data of {n} {several(unit)} have 1/n = {1 / n:.3g}." if n else ""
        found = ""
        if one["discovery"]:
            found = (
                f" Of delta, {round_up(one['discovery'], 3)} is for the discovery of values: with at most this chance "
                f"a value that one {unit} alone has appears in what was released."
            )
        yield (
            f"Delta has to be tiny: a method that shows all of one given {unit} with this chance would keep the "
            f"promise.{beside}{found}"
        )
    even = next(belief for belief in one["attacker"] if belief["before"] == 0.5)
    what = _question(one)
    yield (
        f"A bet: an attacker who is 50 % sure {what} becomes at most {percent(even['mostly'])} sure by seeing "
        f"everything, in all but 1 of 1,000 cases. {_last(even, delta)} A guess that is right 50 times in 100 without "
        f"the release is right at most {percent(even['right'])} of the time with it."
    )
    yield (
        f"This assumes the worst: the attacker knows all other {several(unit)}, has unlimited time, and what is not "
        f"known is this one {unit}. What the release teaches about everybody (that smoking causes illness, say) "
        "is not counted, because it would be the same without this person. Which values are small enough is a decision "
        "of people, not of this page."
    )


def _question(one: dict[str, Any]) -> str:
    unit = one["unit"]
    if one["adjacency"] == Adjacency.REPLACE:
        return f"which of two possible contents a {unit} has"
    return f"that a given {unit} is in the data"


def _last(belief: dict[str, Any], delta: float) -> str:
    if not delta:
        return f"Without any exception it is {percent(belief['at_most'])}."
    if belief["at_most"] >= 1:
        return "Nothing smaller is proved for rarer cases."
    return f"But for a chance of {round_up(delta, 3)} it is {percent(belief['at_most'])}."


def groups(one: dict[str, Any]) -> str:
    """Return what is promised to several units together."""
    unit = one["unit"]
    if not one["groups"]:
        who = "persons who contributed several rows" if unit == ROW else f"several {several(unit)} together"
        return f"Nothing is stated here for {who}, who are protected less."
    listed = "; ".join(
        f"{group['size']}: {'no finite epsilon' if group['epsilon'] is None else round_up(group['epsilon'], 3)}"
        for group in one["groups"]
    )
    return f"{group_protected_less(unit)} protected less. Epsilon at the same delta, by the number of them: {listed}."


def spent_words(one: dict[str, Any]) -> str:
    """Return how much of a budget was used."""
    name = one["currency"]
    return (
        f"Prices are counted in {name}, of which the limit is {round_up(one['limit'], 4)}. The limit was fixed before "
        f"the data were touched, and is the guarantee. {percent(min(1.0, one['charged'] / one['limit']))} of it was "
        "used. How much that is may depend on the data, so less use is no stronger promise."
    )


def public_words(report: dict[str, Any]) -> str:
    """Return what counts as public."""
    unit = report["guarantees"][0]["unit"]
    counted = "rows" if unit == ROW else f"rows and of {several(unit)}"
    return (
        f"Public by decision, and not protected: the number of {counted}, the names and kinds of columns, the set of "
        "labels (not how often each occurs), and every parameter."
    )


def trust() -> list[tuple[str, str]]:
    """Return whom one has to trust, and against whom the guarantee holds."""
    return [
        (
            "Against",
            "everybody who sees what was released, now and later, with any other knowledge and any computer. No later "
            "use of it can undo the guarantee.",
        ),
        (
            "Trusted",
            "those who collect and keep the raw data and run the fit, with their machines (this is central "
            "differential privacy); the source of random bits of the operating system; dpsk, scikit-learn, "
            "NumPy, SciPy and Python.",
        ),
        (
            "Grounds",
            "every step has a theorem, with its proof and tests that check it numerically, in the documents of dpsk. "
            "Noise is drawn exactly, on a grid of whole numbers, so rounding reveals nothing.",
        ),
        ("Not against", "whoever can read the raw data, the memory of the process, or its temporary files."),
    ]


def limits(report: dict[str, Any]) -> list[dict[str, str]]:
    """Return what the guarantee does not cover."""
    one = report["guarantees"][0]
    unit = one["unit"]
    found = {
        "What is true of everybody": (
            "The model shows patterns, and these may tell about a person who is not in the data at all. And that "
            "somebody was asked to take part is not hidden from those who know the list of all who were asked."
        ),
        "Groups": groups(one) + " Families and other groups who resemble each other count as groups.",
        "Other releases": (
            "Everything else that was computed from the same data adds to it: other models, scores, plots, tables. "
            + (
                "The ledger knows only what was recorded in it."
                if report["ledger"] is not None
                else "A PrivacyLedger keeps all of them within one budget."
            )
        ),
        "Before the fit": (
            "Nothing is promised about preprocessing that looked at the data, or about parameters that were chosen by "
            "looking at them. The raw data themselves stay as exposed as they were when collected."
        ),
        "Side channels": (
            "How long a fit takes, its memory, whether it ends for want of them, temporary files and traffic in a "
            "cluster depend on the data, and are not protected."
        ),
        "Right and fair": (
            "Privacy says nothing of whether predictions are right or fair. Noise hurts small groups most."
        ),
    }
    if one["weighted"]:
        own = "that row" if unit == ROW else f"the {unit}'s own rows"
        found["Weights"] = f"Rows had weights. The guarantee holds only if each weight depends on {own} alone."
    return [{"name": name, "text": text} for name, text in found.items()]
