"""The privacy report of a model or a ledger: one page for people, and the same as plain values for programs."""

from __future__ import annotations

import json
import math
import os
from dataclasses import KW_ONLY, dataclass
from datetime import date as Day
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

from ..evaluation.results import PrivateEvaluation
from ..model_selection.score import PrivateScore
from ..privacy import PrivacyLedger
from . import wording
from .audited_promise import judged
from .html_page import document_of, fragment_of
from .markdown_page import markdown_of
from .page import page_of
from .plain_values import file_name, plain
from .subject import Model, guarantee_of_fit, guarantee_of_ledger, state_of
from .versions import installed_versions

SCHEMA = "dpsk privacy report 1"


@dataclass(eq=False, repr=False)
class PrivacyReport:
    """One page about the privacy of a fitted model, or of everything that a ledger records, for people who decide.

    It says what is protected and how well, in words, pictures and numbers, what the budget was spent on, on what kind
    of data, and what is not covered. A fit that is not private has NOT PRIVATE in its first line, and no promise.

    The report looks at no rows: it holds what the fit released, public facts, and what you say. Of a seed it tells only
    that there was one, and of a ledger the days on which fits began, not how long they took.

    Parameters
    ----------
    subject : fitted classifier, pipeline, search, or PrivacyLedger
        A classifier of dpsk, or what has one inside: a pipeline, a :class:`~dpsk.PrivateSearchCV`, a
        :class:`~dpsk.PrivateThreshold`, a :class:`~dpsk.PrivateCalibration`. Or the ledger of all fits.
    title, author, contact, data_description, intended_use, notes : str or None
        What only people know. They are shown as they are, never read as HTML or Markdown.
    n_rows, n_units : int or None
        The public numbers of rows and of persons of the training data. None: what the model says. A number that
        contradicts the model is refused. A ledger, and a model fitted by an older version, says nothing.
    evaluation : PrivateEvaluation or PrivateScore
        How good the model is, on held-out rows.
    audit : object with ``statement()`` and ``to_dict()``
        What attacks on such a fit have found: what :func:`dpsk.audit` returned. If it has a true ``refuted``, the first
        lines of the report say that the promise is false. An audit of another estimator, unit, neighbours or promise
        refutes nothing here: a doubt names the difference.
    date : str or None
        When the report was made. None: today.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpsk import DPLogisticRegression, PrivacyReport
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = PrivacyReport(DPLogisticRegression(epsilon=2.0).fit(X, y), author="R. Writer")
    >>> report.to_dict()["status"]
    'private'
    """

    subject: Any
    _: KW_ONLY
    title: str | None = None
    author: str | None = None
    contact: str | None = None
    data_description: str | None = None
    intended_use: str | None = None
    notes: str | None = None
    n_rows: int | None = None
    n_units: int | None = None
    evaluation: Any = None
    audit: Any = None
    date: str | None = None

    def __post_init__(self) -> None:
        for name in ("title", "author", "contact", "data_description", "intended_use", "notes", "date"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ValueError(f"{name}={value!r} must be a text or None")
        for name in ("n_rows", "n_units"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < 1):
                raise ValueError(f"{name}={value!r} must be None or a positive integer")
        if not (self.evaluation is None or isinstance(self.evaluation, PrivateEvaluation | PrivateScore)):
            raise ValueError(
                f"evaluation is a {type(self.evaluation).__name__}: it must be what private_evaluation or "
                "private_score returned, because other numbers about rows were not paid for"
            )
        for method in ("statement", "to_dict"):
            if self.audit is not None and not callable(getattr(self.audit, method, None)):
                raise ValueError(
                    f"audit is a {type(self.audit).__name__} without {method}(): give the result of an audit"
                )
        self._facts  # noqa: B018  # or its error; a report does not change when its subject is fitted again

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON; docs/report.md lists the keys."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    @cached_property
    def _facts(self) -> dict[str, Any]:
        model = None if isinstance(self.subject, PrivacyLedger) else Model.of(self.subject)
        facts = _of_ledger(self.subject) if model is None else _of_model(model)
        known = {} if model is None else model.sizes
        counted = {name: _agreed(name, getattr(self, name), known.get(name)) for name in ("n_rows", "n_units")}
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "status": "private",
            "warnings": [],
            "doubts": [],
            "title": self.title or wording.title_of(facts["subject"]),
            "author": self.author,
            "contact": self.contact,
            "date": self.date or Day.today().isoformat(),
            "intended_use": self.intended_use,
            "notes": self.notes,
            **facts,
            "evaluation": None if self.evaluation is None else _of_evaluation(self.evaluation),
            "audit": None if self.audit is None else _of_audit(self.audit),
            "limits": [],
            "versions": installed_versions(),
        }
        if self.audit is not None:
            report["audit"] = judged(report["audit"], report, type(self.subject).__name__)
        report["data"] = {"description": self.data_description, **counted, **report["data"]}
        report["warnings"] = list(wording.warnings_of(report))
        report["doubts"] = list(wording.doubts_of(report))
        report["status"] = _status(report["warnings"])
        report["limits"] = wording.limits(report)
        finite: dict[str, Any] = _without_infinity(report)
        return finite

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as JSON, and write it to ``path`` if there is one."""
        return _written(json.dumps(self._facts, indent=1, allow_nan=False) + "\n", path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as an HTML document, and write it to ``path`` if there is one.

        It is one file without scripts, which needs no network and prints on paper.
        """
        return _written(document_of(page_of(self._facts)), path)

    def to_markdown(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report as Markdown, and write it to ``path`` if there is one; words take the place of pictures."""
        return _written(markdown_of(page_of(self._facts)), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file: HTML, Markdown or JSON, as its suffix says."""
        suffix = Path(path).suffix.lower()
        writers = {".html": self.to_html, ".htm": self.to_html, ".md": self.to_markdown, ".json": self.to_json}
        if suffix not in writers:
            raise ValueError(f"path={os.fspath(path)!r} must end in one of {', '.join(writers)}")
        writers[suffix](path)

    def _repr_html_(self) -> str:
        return fragment_of(page_of(self._facts))

    def __repr__(self) -> str:
        return f"<PrivacyReport of {' of '.join(self._facts['subject']['names'])}: {self._facts['status']}>"


def _of_model(model: Model) -> dict[str, Any]:
    return {
        "subject": {"kind": "model", "names": model.names, **model.described()},
        "data": model.facts(),
        "guarantees": [guarantee_of_fit(part) for part in model.parts],
        "ledger": None,
    }


def _of_ledger(ledger: PrivacyLedger) -> dict[str, Any]:
    terms = ledger.terms()
    entries = [
        {
            "number": one.number,
            "id": getattr(one, "id", ""),
            "label": one.label,
            "who": getattr(one, "who", ""),
            "note": getattr(one, "note", ""),
            "parameters": plain(getattr(one, "parameters", None)),
            "datasets": list(one.datasets),
            "private": one.private,
            "epsilon": one.epsilon,
            "delta": one.delta,
            "counted": dict(one.counted),
            "state": one.state,
            "begun": one.started[:10],  # the day: how long a search took tells about its secret number of runs
        }
        for one in ledger.history()
    ]
    kept = {"identity": ledger.identity, "currency": terms.currency, "disjoint": list(terms.disjoint)}
    named = {
        "kind": "ledger",
        "names": [f"PrivacyLedger {file_name(ledger)}"],
        "layers": [],
        "steps": [],
        "chosen": None,
    }
    return {
        "subject": named,
        "data": {"n_columns": None, "columns": [], "classes": []},
        "guarantees": [guarantee_of_ledger(ledger)],
        "ledger": {**kept, "datasets": list(ledger.datasets), "left": ledger.remaining(), "entries": entries},
    }


def _of_evaluation(evaluation: PrivateEvaluation | PrivateScore) -> dict[str, Any]:
    spent, state = evaluation.privacy_spent, state_of(evaluation.privacy_spent)
    if isinstance(evaluation, PrivateScore):
        ends = {"interval": list(evaluation.interval), "interval_on_rows": list(evaluation.interval_on_rows)}
        numbers: dict[str, Any] = {"accuracy": {"value": evaluation.accuracy, **ends}}
    else:
        numbers = {name: one for name, one in evaluation.to_dict().items() if "interval" in _keys(one)}
    return {
        "of": type(evaluation).__name__,
        "state": state,
        "statement": evaluation.statement(),
        "epsilon": spent.epsilon if state == "private" else None,
        "adjacency": spent.adjacency,
        "unit": spent.unit,
        "n_rows": evaluation.n_rows,
        "n_units": evaluation.n_units,
        "confidence": evaluation.confidence,
        "numbers": numbers,
        "entry": getattr(spent, "entry", None),
        "ledger": getattr(spent, "ledger", None),
    }


def _keys(value: Any) -> Any:
    return value if isinstance(value, dict) else ()


def _of_audit(audit: Any) -> dict[str, Any]:
    refuted = bool(getattr(audit, "refuted", False))
    return {"statement": str(audit.statement()), "refuted": refuted, "result": plain(audit.to_dict())}


def _agreed(name: str, given: int | None, known: int | None) -> int | None:
    """Return a number that was given, or that the model knows; raise ValueError if they differ."""
    if given is not None and known is not None and given != known:
        raise ValueError(
            f"{name}={given!r} contradicts the model, which was fitted with {name}={known!r}: leave {name} out"
        )
    return known if given is None else int(given)


_STATUS = {"NOT PRIVATE": "not private", "AUDIT": "refuted", "NO MODEL": "no model", "": "partly private"}


def _status(warnings: list[str]) -> str:
    for beginning, status in _STATUS.items():
        if any(text.startswith(beginning) for text in warnings):
            return status
    return "private"


def _without_infinity(value: Any) -> Any:
    """Return plain values in which numbers that are not finite are None: JSON has none."""
    if isinstance(value, dict):
        return {name: _without_infinity(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_infinity(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
