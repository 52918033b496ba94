"""Effects: the sum of curves and bars that a fitted model of raw tables is, one for each field.

They follow from released weights and means, so they cost nothing. Contributions have the mean 0 under the released
counts, and the constant takes what is left: the score of a row is the constant and the contributions of its fields.

Noise bands tell how far the noise of the gradients moves a contribution, for the released encoding. The chance that
other rows had been drawn is not in them. They are estimates: products of features of two fields are not released.
Where two fields say nearly the same, noise moves parts of one curve into the other, and bands may be too narrow.

Interactions, where a model has them, are a further part of the score. Their mean is in the constant, and what is left
has the mean 0 if columns are normal and independent. It contains functions of single columns, too. So curves are then
not main effects: what a column does by itself is spread over both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Date, Waves
from ..data.features import CategoryFeatures, FeatureMoments, FieldFeatures, QuantityFeatures
from ..encodings.tabular import SCALE_POWER
from ..mechanisms.samplers import Floats


@dataclass(frozen=True, eq=False)
class Effect:
    """What one field adds to the score.

    With more than two classes, contributions and their noise have one column per class.

    Parameters
    ----------
    name : str
    kind : {"number", "time", "categories", "words"}
        "time" is a number of days since 1970-01-01.
    points, curve : ndarray
        Of a number: the contribution is linear between these points, and constant beyond the first and the last. Empty
        for other kinds.
    curve_noise : ndarray or None
        The standard deviation that the noise of the fit gives to ``curve``. None if a callback ended the fit.
    labels, bars, bars_noise :
        The same for single values. Of a number: "0", where it has a term of its own, and "missing". Of categories: the
        known ones, "other" and "missing". Of words: the buckets, each for a text of one word, and "no word". A text of
        m words adds ``none + sum(bar - none for its buckets) / sqrt(m)``, where none is the bar of "no word".
    shares : ndarray
        The released shares of rows of the labels: 0 where the model has no term for one.
    importance : float
        The root of the mean square of the contribution over rows, under the released counts; over classes, too.
    """

    name: str
    kind: str
    points: Floats
    curve: Floats
    curve_noise: Floats | None
    labels: tuple[str, ...]
    bars: Floats
    bars_noise: Floats | None
    shares: Floats
    importance: float


@dataclass(frozen=True, eq=False, repr=False)
class Effects(Mapping[str, Effect]):
    """The effects of all fields by name, in the order of the table, and the constant to which they add.

    Parameters
    ----------
    constant : float or ndarray
        With more than two classes, one number per class.
    all : tuple of Effect
    interactions : float or None
        The importance of interactions, in the sense of :class:`Effect`, estimated as if columns were normal and
        independent. They are a further part of the score, which no effect shows, and with them the curves of columns
        of numbers are not main effects. None where the model has no interactions.
    """

    constant: Any
    all: tuple[Effect, ...]
    interactions: float | None = None

    def __getitem__(self, name: str) -> Effect:
        for effect in self.all:
            if effect.name == name:
                return effect
        raise KeyError(f"{name!r} is none of the fields {', '.join(map(repr, self))}")

    def __iter__(self) -> Iterator[str]:
        return (effect.name for effect in self.all)

    def __len__(self) -> int:
        return len(self.all)

    def by_importance(self) -> list[Effect]:
        """Return the effects, the most important first."""
        return sorted(self.all, key=lambda effect: -effect.importance)

    def __repr__(self) -> str:
        shown = [f"{effect.name}: {effect.importance:.2g}" for effect in self.by_importance()]
        if self.interactions is not None:
            shown.append(f"and interactions, which are not shown: {self.interactions:.2g}")
        return f"Effects({', '.join(shown)})"


def effects_of(model: Any) -> Effects:
    """Return the effects of a fitted model of raw tables."""
    features, noise = model.encoder_.features, getattr(model, "descent_noise_", None)
    coef, moments = model.coef_.T[: features.n_features], features.moments  # without interactions
    kinds = [features.schema.kinds[features.schema.fields[part.at].column] for part in features.parts]
    found = []
    for i, (part, kind) in enumerate(zip(features.parts, kinds, strict=True)):
        own = slice(features.starts[i], features.starts[i + 1])
        mean, products, covariances = moments.mean[own], features.mean_products(i), None
        if noise is not None:
            scale = np.multiply.outer(moments.scale[own], moments.scale[own])
            seen = products - np.multiply.outer(mean, mean) * moments.centred  # an intercept takes the means
            covariances = scale * noise.covariances(seen * scale, own)
        found.append(_effect(part, kind, coef[own], mean, products, covariances))
    constant, interactions = model.intercept_ + moments.mean @ coef, None
    waves = getattr(model, "waves_", None)
    if waves is not None:
        mean, covariances = wave_moments(waves, moments)
        weights = model.coef_.T[features.n_features :]
        constant = constant + mean @ weights
        spread = np.einsum("ik,ij,jk->k", weights, covariances, weights, optimize=True)
        interactions = float(np.sqrt(np.maximum(spread, 0).mean()))
    return Effects(float(constant[0]) if len(constant) == 1 else constant, tuple(found), interactions)


def wave_moments(waves: Waves, moments: FeatureMoments) -> tuple[Floats, Floats]:
    """Return means and covariances of waves, as if their columns were normal and independent.

    Then sums and differences of two phases are normal. A phase of mean m and variance v has a cosine of mean
    exp(-v/2) cos(m) and a sine of mean exp(-v/2) sin(m), and products of two are halves of sums of such ones.
    """
    radians = 2 * math.pi * waves.turns
    centre = 0.0 if waves.columns.centre is None else waves.columns.centre
    middle = (moments.mean[waves.at] - centre) @ radians
    spread = radians * moments.scale[waves.at][:, None] ** (-1 / SCALE_POWER)
    shared, squares = spread.T @ spread, np.square(spread).sum(axis=0)
    both = np.add.outer(squares, squares) / 2
    more, less = np.exp(-both - shared), np.exp(-both + shared)  # of sums, and of differences
    plus, minus = np.add.outer(middle, middle), np.subtract.outer(middle, middle)
    cosines = (less * np.cos(minus) + more * np.cos(plus)) / 2
    sines = (less * np.cos(minus) - more * np.cos(plus)) / 2
    mixed = (more * np.sin(plus) - less * np.sin(minus)) / 2
    mean = np.concatenate([np.cos(middle), np.sin(middle)]) * np.tile(np.exp(-squares / 2), 2)
    return mean, np.block([[cosines, mixed], [mixed.T, sines]]) - np.multiply.outer(mean, mean)


def _effect(
    part: FieldFeatures, kind: Any, coef: Floats, mean: Floats, products: Floats, covariances: Floats | None
) -> Effect:
    points, on_curve, labels, at_labels, shares = _values(part, mean)
    spread = np.einsum("ik,ij,jk->k", coef, products - np.multiply.outer(mean, mean), coef)

    def contributions(rows: Floats) -> Floats:
        return _by_class((rows - mean) @ coef)

    def noise(rows: Floats) -> Floats | None:
        if covariances is None:
            return None
        variance = (((rows - mean) @ covariances) * (rows - mean)).sum(axis=2).T
        return _by_class(np.sqrt(np.maximum(variance, 0)))

    return Effect(
        part.label,
        ("time" if isinstance(kind, Date) else "number")
        if isinstance(part, QuantityFeatures)
        else ("categories" if isinstance(part, CategoryFeatures) else "words"),
        points,
        contributions(on_curve),
        noise(on_curve),
        labels,
        contributions(at_labels),
        noise(at_labels),
        shares,
        float(np.sqrt(np.maximum(spread, 0).mean())),
    )


def _by_class(found: Floats) -> Floats:
    return found[:, 0] if found.shape[1] == 1 else found


def _values(part: FieldFeatures, mean: Floats) -> tuple[Floats, Floats, tuple[str, ...], Floats, Floats]:
    """Return points and their features, and labels, their features and their shares."""
    if isinstance(part, QuantityFeatures):
        points = np.unique([part.low, part.high, *part.knots])
        on_curve = part.matrix(points)
        if part.zero:  # the curve is what numbers near 0 have
            on_curve[:, part.names.index(f"{part.label} = 0")] = 0.0
        labels = ("0",) * part.zero + ("missing",)
        at_labels = part.matrix(np.array([0.0] * part.zero + [np.nan]))
        held = mean[len(mean) - part.zero - part.missing :]
        return points, on_curve, labels, at_labels, np.append(held, [0.0] * (not part.missing))
    unit, none = np.eye(len(mean)), np.zeros((1, len(mean)))
    nowhere = np.zeros(0), np.zeros((0, len(mean)))
    if not isinstance(part, CategoryFeatures):
        labels = tuple(name.removeprefix(f"{part.label} ") for name in part.names)
        return *nowhere, (*labels, "no word"), np.concatenate([unit, none]), np.append(mean, 0.0)
    known = len(part.values)
    other, missing = known if part.other else -1, known + part.other if part.missing else -1
    rows = np.concatenate([unit, none])[[*range(known), other, missing]]
    return *nowhere, (*part.values, "other", "missing"), rows, np.append(mean, 0.0)[[*range(known), other, missing]]
