"""The page of a report, from its plain values: sections of paragraphs, tables, lists and pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..privacy.report import round_up
from ..privacy.units import ROW, several
from . import wording
from .audit_drawing import audited
from .drawings import Picture, profile, spending, trade_off
from .wording import percent

_MOST = 40  # names in a list
_LONG = 90  # letters of the value of a parameter


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Rows:
    """A table: a head, and rows of as many cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str


@dataclass(frozen=True)
class Terms:
    """Pairs of a term and what is said about it."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side."""

    pictures: tuple[Picture, ...]


Block: TypeAlias = Paragraph | Rows | Terms | Pictures


@dataclass(frozen=True)
class Section:
    """A heading and what belongs to it."""

    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """What a reader sees, before it is HTML or Markdown. All texts are as they were given: nothing is escaped."""

    status: str
    warnings: tuple[str, ...]
    doubts: tuple[str, ...]
    title: str
    lead: str
    sections: tuple[Section, ...]


def page_of(report: dict[str, Any]) -> Page:
    """Return the page of a report, whose plain values are those of ``PrivacyReport.to_dict``."""
    private = [one for one in report["guarantees"] if one["state"] in ("private", "no model")]
    main = private[0] if private else None
    sections = [Section("What it is for", tuple(_purpose(report)))]
    if main is not None:
        if report["status"] == "refuted":
            sections.append(Section("What was claimed", tuple(_claimed(report))))
        else:
            sections.append(Section("The guarantee", tuple(_guarantee(report, main))))
            sections.append(Section("What it means", tuple(_meaning(report, main))))
        sections.append(Section("Where the budget went", tuple(_spent(report, main))))
    sections += [
        Section("Data and parameters", tuple(_data(report))),
        Section("Ledger", tuple(_ledger(report))),
        Section("How good it is", tuple(_evaluation(report))),
        Section("Audit", tuple(_audit(report))),
    ]
    if main is not None and report["status"] != "refuted":
        limits = tuple((one["name"], one["text"]) for one in report["limits"])
        sections += [
            Section("Trust", (Terms(tuple(wording.trust())),)),
            Section("Not covered", (Terms(limits),)),
        ]
    sections.append(Section("Record", tuple(_record(report))))
    shown = tuple(section for section in sections if section.blocks)
    lead = _lead(main, report["status"]) if main is not None else "This report makes no promise of privacy."
    return Page(report["status"], tuple(report["warnings"]), tuple(report["doubts"]), report["title"], lead, shown)


_BEFORE = {
    "partly private": "In part only: ",
    "not private": "In part only: ",
    "no model": "What was released keeps ",
    "refuted": "Claimed, and refuted by an audit: ",
}


def _lead(one: dict[str, Any], status: str) -> str:
    pair = f"({round_up(one['epsilon'], 4)}, {round_up(one['delta'], 3)})"
    promised = f"{pair}-differential privacy" if one["delta"] else f"pure {pair[1:].split(',')[0]}-differential privacy"
    return f"{_BEFORE.get(status, '')}{promised} for each {one['unit']} of the {_whose(one)}."


def _whose(one: dict[str, Any]) -> str:
    return "data of the ledger" if one["about"] == "everything recorded" else one["about"]


def _purpose(report: dict[str, Any]) -> Iterator[Block]:
    said = {"Intended use": report["intended_use"], "Data": report["data"]["description"], "Notes": report["notes"]}
    pairs = tuple((name, text) for name, text in said.items() if text)
    if pairs:
        yield Terms(pairs)


def _guarantee(report: dict[str, Any], main: dict[str, Any]) -> Iterator[Block]:
    yield Paragraph(wording.promise(main))
    yield from _guarantees(report, "Guarantees, rounded up")


def _claimed(report: dict[str, Any]) -> Iterator[Block]:
    yield Paragraph("The audit has shown that this is false. Nothing follows from it.")
    yield from _guarantees(report, "Claims, rounded up")


def _guarantees(report: dict[str, Any], caption: str) -> Iterator[Block]:
    head = ("for", "by", "unit", "neighbours", "epsilon", "delta", "rho")
    rows = []
    for one in report["guarantees"]:
        numbers = (_number(one["epsilon"]), _number(one["delta"]), _number(one["rho"]))
        if one["state"] not in ("private", "no model"):
            numbers = ("no promise", "-", "-")
        rows.append((one["about"], one["of"], one["unit"], one["adjacency"] or "-", *numbers))
    yield Rows(head, tuple(rows), caption)


def _number(value: float | None) -> str:
    return "-" if value is None else round_up(value, 4)


def _meaning(report: dict[str, Any], main: dict[str, Any]) -> Iterator[Block]:
    if len(report["guarantees"]) > 1:
        yield Paragraph(f"This is about the {main['about']}, and the guarantee of {main['of']}.")
    for text in wording.meaning(main, report["data"]):
        yield Paragraph(text)
    rare = f"but for a chance of {round_up(main['delta'], 3)}" if main["delta"] else "without exception"
    rows = tuple(
        (f"{100 * one['before']:g} %", percent(one["mostly"]), percent(one["at_most"]), percent(one["right"]))
        for one in main["attacker"]
    )
    head = ("sure before", "sure after, in all but 1 of 1,000 cases", f"sure after, {rare}", "best guess is right")
    yield Rows(head, rows, "An attacker, at most")
    yield Pictures((trade_off(main), profile(main)))


def _spent(report: dict[str, Any], main: dict[str, Any]) -> Iterator[Block]:
    if report["status"] != "refuted":
        yield Paragraph(wording.spent_words(main))
    if main["releases"]:
        yield Pictures((spending(main),))
        rows = tuple(
            (one["label"], f"{one['count']}", round_up(one["cost"], 3), percent(one["share"]))
            for one in main["releases"]
        )
        if len(rows) <= _MOST and report["ledger"] is None:  # the table of the ledger has all
            yield Rows(("release", "times", f"{main['currency']} each", "of the limit"), rows, "Releases and prices")


def _data(report: dict[str, Any]) -> Iterator[Block]:
    data, unit = report["data"], report["guarantees"][0]["unit"]
    units = {} if unit == ROW else {several(unit): data["n_units"]}
    counts = {"rows": data["n_rows"], **units, "columns": data["n_columns"]}
    size = ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)
    pairs = [("Size", size)] if size else []
    kinds = dict[str, list[str]]()
    for column in data["columns"]:
        kinds.setdefault(column["kind"], []).append(column["name"])
    pairs += [(f"Columns, {kind}", _listed(names)) for kind, names in kinds.items()]
    if data["classes"]:
        pairs.append(("Labels", _listed([str(one) for one in data["classes"]])))
    for layer in report["subject"]["layers"] + report["subject"]["steps"]:
        name = f"Step {layer['name']}: {layer['class']}" if "name" in layer else layer["class"]
        pairs.append((name, _parameters(layer)))
    if report["subject"]["chosen"] is not None:
        pairs.append(("Chosen by the search", _given(report["subject"]["chosen"])))
    if pairs:
        yield Terms(tuple(pairs))
    yield Paragraph(wording.public_words(report))


def _parameters(layer: dict[str, Any]) -> str:
    usual = {name: layer["values"][name] for name in layer["defaults"]}
    given = {name: value for name, value in layer["values"].items() if name not in usual}
    text = _given(given) if given else "no parameter was changed"
    return f"{text}. Defaults: {_given(usual)}" if usual else text


def _given(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in values.items())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(map(_short, names[:_MOST])) + more


def _ledger(report: dict[str, Any]) -> Iterator[Block]:
    ledger = report["ledger"]
    if ledger is None:
        return
    left = " and ".join(f"{name} {wording.round_down(value, 6)}" for name, value in ledger["left"].items())
    pairs = [("Identity", ledger["identity"] or "none"), ("Kept in", ledger["currency"]), ("Left", left)]
    if ledger["disjoint"]:
        pairs.append(
            ("Data sets with no unit in common", f"{_listed(ledger['disjoint'])}. Each has the whole budget to itself")
        )
    yield Terms(tuple(pairs))
    head = ("no.", "what", "data sets", "epsilon", "delta", "counts for", "state", "begun", "id, who, note")
    rows = []
    for one in ledger["entries"]:
        counted = ", ".join(f"{name} {round_up(value, 3)}" for name, value in one["counted"].items())
        promised = (
            (round_up(one["epsilon"] or math.inf, 3), round_up(one["delta"], 3)) if one["private"] else ("-", "-")
        )
        state = one["state"] if one["private"] else f"{one['state']}, NOT PRIVATE"
        said = ", ".join(text for text in (one["id"], one["who"], one["note"]) if text)
        datasets = ", ".join(one["datasets"]) or "all"
        rows.append((f"{one['number']}", one["label"], datasets, *promised, counted, state, one["begun"], said))
    if rows:
        yield Rows(head, tuple(rows), "Everything recorded")


def _evaluation(report: dict[str, Any]) -> Iterator[Block]:
    judged = report["evaluation"]
    if judged is None:
        return
    confidence = f"{math.floor(1e4 * judged['confidence']) / 100:g} %"
    of_units = (
        "" if judged["unit"] == ROW else f" of {judged['n_units']} {several(judged['unit'])}, who count once each"
    )
    paid = ""
    if judged["state"] == "private":
        paid = (
            f" It was released once, with epsilon = {round_up(judged['epsilon'], 4)} for each of these "
            f"{several(judged['unit'])}."
        )
    yield Paragraph(
        f"Judged on {judged['n_rows']} held-out rows{of_units}.{paid} Ranges hold with {confidence} confidence each: "
        f"the first for the population, if these {several(judged['unit'])} are a random sample of it, the second for "
        "these rows. Were they rows of the fit as well, both promises would add up, and the numbers would be too good."
    )
    rows = tuple(
        (name.replace("_", " "), f"{one['value']:.3f}", _range(one["interval"]), _range(one["interval_on_rows"]))
        for name, one in judged["numbers"].items()
    )
    yield Rows(("number", "value", "population", "these rows"), rows, "Evaluation")


def _range(ends: list[float]) -> str:
    """Return an interval, rounded outward."""
    low, high = ends
    return f"{math.floor(1e3 * low) / 1e3:.3f} to {math.ceil(1e3 * high) / 1e3:.3f}"


def _audit(report: dict[str, Any]) -> Iterator[Block]:
    audit = report["audit"]
    if audit is None:
        return
    picture = audited(audit)
    if picture is not None:
        yield Pictures((picture,))
    yield Paragraph(audit["statement"])
    said = "" if wording.AUDITS in audit["statement"] else f"{wording.AUDITS} "
    proved = "" if audit["refuted"] else "The proof that it is kept is in the theorems."
    if audit["mismatch"]:
        proved = "It says nothing about the promise of this report."
    if said or proved:
        yield Paragraph(f"{said}{proved}".strip())


def _record(report: dict[str, Any]) -> Iterator[Block]:
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    entries = [
        f"entry {one['entry']} of the ledger {one['ledger']} ({one['about']})"
        for one in report["guarantees"]
        if one["entry"] is not None
    ]
    said = {
        "Made": report["date"],
        "By": report["author"],
        "Contact": report["contact"],
        "Recorded as": "; ".join(entries),
        "Versions": f"{versions} (when this report was made)",
    }
    yield Terms(tuple((name, text) for name, text in said.items() if text))
