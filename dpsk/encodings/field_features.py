"""From the released counts of a field to its features, their means and their deviations."""

import math
from dataclasses import dataclass

import numpy as np

from ..data.features import CategoryFeatures, FieldFeatures, QuantityFeatures, WordFeatures
from ..data.fields import Field, Listed, Quantity, Words
from ..mechanisms.samplers import Floats
from ..queries.looks import FieldCounts
from .bins import ends_of, is_one_number, knots_of, smoothed

RARE = 3.0  # standard deviations of the noise below which a value is not told from no value
OUTSIDE = 0.01  # the part of all numbers beyond each end of the linear term
NEARLY_ALL = 0.9  # of all numbers, in one bin: they are hardly told apart
_POINTS = 4  # of a bin, over which its mass is spread


@dataclass(frozen=True, eq=False)
class Counted:
    """The features of a field, and the estimated sums over rows of their values and of products of two of them.

    Of categories and words ``products`` has the squares alone.
    """

    features: FieldFeatures
    sums: Floats
    products: Floats


def counted(
    field: Field, at: int, counts: FieldCounts, edges: Floats | None, *, n_knots: int, n_rows: int, noise: float
) -> Counted:
    """Return the features that the released counts of a field ask for."""
    if isinstance(field, Quantity) and edges is not None:
        return _quantity(field, at, counts, edges, n_knots, n_rows, noise)
    if isinstance(field, Words):
        return _words(field, at, counts, n_rows, noise)
    return _category(field, at, counts, n_rows, noise)


def _quantity(
    field: Quantity, at: int, counts: FieldCounts, edges: Floats, n_knots: int, n_rows: int, noise: float
) -> Counted:
    mass, one = smoothed(counts.cells, noise), is_one_number(counts.cells, noise)
    if one:
        mass = np.where(np.arange(len(mass)) == counts.cells.argmax(), max(counts.cells.max(), noise), 0.0)
    zero = counts.zero if counts.zero > RARE * noise else 0.0
    where = np.linspace(edges[:-1], edges[1:], 2 * _POINTS + 1)[1::2].T.ravel()  # the middles of even parts
    points, weights = np.append(where, 0.0), np.append(np.repeat(mass / _POINTS, _POINTS), zero)
    missing = counts.missing if RARE * noise < counts.missing < n_rows - RARE * noise else 0.0
    weights = weights if weights.any() else np.ones(len(weights))  # noise alone was counted, and all of it below 0
    weights *= max(n_rows - missing, noise) / weights.sum()
    low, high = _ends(field, edges, mass, bool(zero))
    knots = np.zeros(0)
    if n_knots and mass.any() and not one:
        knots = knots_of(edges, mass, n_knots, zero=bool(zero))
    centre = float(np.clip(np.average(points, weights=weights), low, high))
    features = QuantityFeatures(
        at,
        field.name,
        low,
        high,
        centre,
        knots if len(knots) > 2 else np.zeros(0),
        zero=bool(zero) and len(knots) > 2,
        missing=bool(missing),
    )
    placed, numbers = features.entries(points)
    k = len(features.names)
    sums = np.bincount(placed.ravel(), (numbers * weights[:, None]).ravel(), minlength=k).astype(np.float64)
    products = np.zeros((k, k))
    parts = numbers[:, :, None] * numbers[:, None, :] * weights[:, None, None]
    np.add.at(products, (placed[:, :, None], placed[:, None, :]), parts)
    if features.missing:
        sums[-1] = products[-1, -1] = missing
    return Counted(features, sums, products)


def _ends(field: Quantity, edges: Floats, mass: Floats, zero: bool) -> tuple[float, float]:
    """Return the ends of the linear term: public ones, or those of nearly all numbers."""
    low, high = ends_of(edges, mass, OUTSIDE) if mass.any() else (float(edges[0]), float(edges[-1]))
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    elif mass.max() > NEARLY_ALL * mass.sum():  # next to its size, where in its bin a number lies hardly matters
        low, high = low - max(1.0, abs(low)), high + max(1.0, abs(high))
    low = low if field.low is None else field.low
    high = max(low, high) if field.high is None else field.high
    return min(low, high), high


def _category(field: Field, at: int, counts: FieldCounts, n_rows: int, noise: float) -> Counted:
    kept = np.flatnonzero(counts.cells > RARE * noise)
    missing = counts.missing if counts.missing > RARE * noise else 0.0
    rest = n_rows - counts.cells[kept].sum() - missing
    other = bool(rest > RARE * noise * math.sqrt(len(kept) + 2)) or not len(kept)
    features = CategoryFeatures(
        at,
        field.name,
        tuple(counts.names[i] for i in kept),
        tuple(int(i) for i in kept) if isinstance(field, Listed) else None,
        other=other,
        missing=bool(missing),
    )
    sums = np.array([*counts.cells[kept], *[rest] * other, *[missing] * bool(missing)])
    return Counted(features, sums, sums)


def _words(field: Words, at: int, counts: FieldCounts, n_rows: int, noise: float) -> Counted:
    kept = np.flatnonzero(counts.cells > RARE * noise)
    sums = counts.cells[kept]
    # a row of m words adds sqrt(m) to all buckets together, and each of its entries is 1/sqrt(m)
    entry = n_rows / max(float(sums.sum()), n_rows)
    return Counted(WordFeatures(at, field.name, tuple(map(int, kept)), field.buckets), sums, sums * entry)
