"""What a report is about: a fitted model or a ledger, as public facts and as guarantees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..pipelines import check_pipeline
from ..privacy import PrivacyLedger, PrivacySpent, conversions
from ..privacy.currencies import ZCDP
from ..privacy.durable.terms import Terms, float_above
from .attacker import Attacker
from .plain_values import file_name, label, parameters_of, plain

GROUPS = (2, 5, 10)
BEFORE = (0.01, 0.1, 0.5, 0.9)
RARE = 1e-3


@dataclass(frozen=True)
class Part:
    """One guarantee: for whom, and the report of the fit that keeps it. Without a report nothing is promised."""

    about: str
    name: str
    spent: PrivacySpent | None


@dataclass(frozen=True)
class Model:
    """A fitted model: the objects from the outside in, of which each has or holds the next, and steps in front.

    ``refused`` are the names of steps of which nobody knows that they learned nothing from rows.
    """

    layers: tuple[Any, ...]
    steps: tuple[tuple[str, Any], ...]
    refused: frozenset[str]

    @classmethod
    def of(cls, subject: Any) -> Model:
        """Return the layers of a model; raise ValueError if it is not one with a guarantee."""
        layers, steps, refused = list[Any](), list[tuple[str, Any]](), set[str]()
        inner = subject
        while inner is not None:
            if isinstance(inner, Pipeline):
                front = [(name, step) for name, step in inner.steps[:-1] if step not in (None, "passthrough")]
                steps += front
                checked = check_pipeline(inner, public=getattr(inner, "public", ())).refused
                shown = {one.name.partition(" > ")[0] for one in checked}
                refused |= {name for name, step in front if name in shown and not _has_guarantee(step)}
                inner = inner.steps[-1][1]
            elif isinstance(inner, FrozenEstimator):
                inner = inner.estimator
            else:
                layers.append(inner)
                inner = _inside(inner)
        if not any(isinstance(getattr(layer, "privacy_spent_", None), PrivacySpent) for layer in layers):
            raise ValueError(
                f"subject is a {type(subject).__name__} without privacy_spent_: give a fitted classifier of dpsk, a "
                "fitted pipeline that ends in one, or the PrivacyLedger of all fits"
            )
        return cls(tuple(layers), tuple(steps), frozenset(refused))

    @property
    def names(self) -> list[str]:
        """The names of the classes of the layers."""
        return [type(layer).__name__ for layer in self.layers]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The guarantees, that of the rows which the model was trained on first."""
        found = list[Part]()
        for layer, name in zip(self.layers, self.names, strict=True):
            spent = getattr(layer, "privacy_spent_", None)
            known = spent if isinstance(spent, PrivacySpent) else None
            if known is None or known not in [part.spent for part in found]:  # a search and its model share one
                held_out = known is not None and known.held_out
                found.append(Part("held-out data" if held_out else "training data", name, known))
        return tuple(reversed(found))

    @property
    def learned(self) -> list[str]:
        """The steps in front of the model that learn from rows, as far as anybody knows, and say nothing of privacy."""
        return [name for name, _ in self.steps if name in self.refused]

    def facts(self) -> dict[str, Any]:
        """Return what is public about the training data: columns and labels."""
        outer, spent = self.layers[0], self.parts[0].spent
        columns = [] if spent is None else [{"name": name, "kind": kind} for name, kind in spent.columns]
        if not columns:
            names = getattr(outer, "feature_names_in_", ())
            columns = [{"name": str(name), "kind": "number" if not self.steps else "unknown"} for name in names]
        n_columns = getattr(outer, "n_features_in_", len(columns) or None)
        classes = [label(one) for one in getattr(outer, "classes_", ())]
        return {"n_columns": n_columns, "columns": columns, "classes": classes}

    @property
    def sizes(self) -> dict[str, int | None]:
        """The public numbers of rows and of persons of the training data, as far as the fit remembers them."""
        spent = self.parts[0].spent
        if spent is None or spent.held_out:
            return {}
        return {"n_rows": spent.n_rows, "n_units": spent.n_units}

    def described(self) -> dict[str, Any]:
        """Return the layers and steps with their parameters."""
        layers = [{"class": name, **parameters_of(layer)} for layer, name in zip(self.layers, self.names, strict=True)]
        steps = [
            {"name": name, "class": type(step).__name__, "learned": name in self.refused, **parameters_of(step)}
            for name, step in self.steps
        ]
        chosen = [plain(layer.best_params_) for layer in self.layers if hasattr(layer, "best_params_")]
        return {"layers": layers, "steps": steps, "chosen": chosen[0] if chosen else None}


def _inside(model: Any) -> Any:
    """Return the model that another one holds: the best of a search, or the one whose probabilities are set."""
    if hasattr(model, "best_estimator_"):
        return model.best_estimator_
    spent = getattr(model, "privacy_spent_", None)
    return getattr(model, "estimator", None) if isinstance(spent, PrivacySpent) and spent.held_out else None


def _has_guarantee(step: Any) -> bool:
    return isinstance(getattr(step, "privacy_spent_", None), PrivacySpent)


def state_of(spent: PrivacySpent | None) -> str:
    """Return how a guarantee stands: "private", "seeded", "no noise", "no model", or "none"."""
    if spent is None:
        return "none"
    if math.isinf(spent.limit):
        return "no noise"
    if not spent.private:
        return "seeded"
    return "private" if spent.complete else "no model"


def guarantee_of_fit(part: Part) -> dict[str, Any]:
    """Return the guarantee of a fit as plain values; of one that is not private no number is told."""
    spent, state = part.spent, state_of(part.spent)
    if spent is None or state not in ("private", "no model"):
        unit, adjacency = ("row", None) if spent is None else (spent.unit, spent.adjacency)
        return _guarantee(part.about, part.name, state, unit, adjacency)
    releases = [{**vars(one), "share": min(1.0, one.count * one.cost / spent.limit)} for one in spent.releases]
    return _guarantee(part.about, part.name, state, spent.unit, spent.adjacency) | {
        "statement": spent.statement(),
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "currency": spent.currency.name,
        "limit": spent.limit,
        "charged": spent.charged,
        "rho": spent.rho,
        "discovery": None if spent.discovery is None else spent.discovery.failure,
        "weighted": spent.weighted,
        "groups": list(_groups(spent.epsilon_for_group)),
        "releases": releases,
        "entry": getattr(spent, "entry", None),
        "ledger": getattr(spent, "ledger", None),
        **_attacked(Attacker.of(spent.delta_at, spent.epsilon), spent.epsilon, spent.delta),
    }


def guarantee_of_ledger(ledger: PrivacyLedger) -> dict[str, Any]:
    """Return the guarantee of everything that a ledger records."""
    terms = ledger.terms()
    counted = [one for one in ledger.history() if one.state != "returned"]
    broken = any(not one.private for one in counted)
    name = f"PrivacyLedger {file_name(ledger)}"
    empty = _guarantee("everything recorded", name, "broken" if broken else "private", terms.unit, terms.adjacency)
    if broken:
        return empty
    delta_at = _profile_of(terms)
    attacker = Attacker(((terms.epsilon, terms.delta),)) if delta_at is None else Attacker.of(delta_at, terms.epsilon)
    main = "epsilon" if terms.currency == "basic" else terms.currency
    limit, left = float_above(terms.limit.main), ledger.remaining()[main]
    releases = [
        {
            "label": f"{one.number}: {one.label}",
            "count": 1,
            "cost": one.counted[main],
            "share": min(1.0, one.counted[main] / limit),
        }
        for one in counted
    ]
    return empty | {
        "statement": ledger.statement(),
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "currency": terms.currency,
        "limit": limit,
        "charged": limit - left,
        "rho": limit if terms.currency == "rho" else None,
        "discovery": terms.reserve or None,
        "releases": releases,
        "ledger": ledger.identity,
        **_attacked(attacker, terms.epsilon, terms.delta),
    }


def _profile_of(terms: Terms) -> Callable[[float], float] | None:
    """Return delta as a function of epsilon; None where only epsilons and deltas are added up."""
    limit = float_above(terms.limit.main)
    if terms.currency == "rho":
        return lambda epsilon: ZCDP().delta(limit, epsilon)
    if terms.currency == "mu**2":
        return lambda epsilon: conversions.gaussian_delta(epsilon, math.sqrt(limit), terms.reserve)
    return None


def _guarantee(about: str, name: str, state: str, unit: str, adjacency: str | None) -> dict[str, Any]:
    """Return a guarantee that promises nothing yet: all keys are there."""
    nothing = ("statement", "epsilon", "delta", "currency", "limit", "charged", "rho", "discovery", "entry", "ledger")
    return {
        "about": about,
        "of": name,
        "state": state,
        "unit": unit,
        "adjacency": adjacency,
        **dict.fromkeys(nothing),
        "weighted": False,
        **{name: list[Any]() for name in ("groups", "releases", "profile", "trade_off", "attacker")},
    }


def _groups(epsilon_of: Callable[[int], float]) -> Iterator[dict[str, Any]]:
    for size in GROUPS:
        try:
            epsilon = epsilon_of(size)
        except ValueError:  # no theorem for this kind of budget
            return
        yield {"size": size, "epsilon": epsilon if epsilon < math.inf else None}


def _attacked(attacker: Attacker, epsilon: float, delta: float) -> dict[str, Any]:
    """Return what an attacker reaches at most against this guarantee."""
    beliefs = [
        {
            "before": before,
            "right": attacker.right(before),
            "mostly": attacker.surest(before, RARE),
            "exception": delta,
            "at_most": attacker.surest(before, delta),
        }
        for before in BEFORE
    ]
    return {
        "profile": [list(point) for point in attacker.profile],
        "trade_off": attacker.trade_off.tolist(),
        "attacker": beliefs,
    }
