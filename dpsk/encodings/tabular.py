"""The encoding of raw tables: numbers become curves, categories become indicators, and what that takes is counted.

A first look finds where numbers lie, a second one looks closer. The last is one joint histogram of all fields. Knots,
ends, means, deviations and the values of categories follow from these releases (docs/guarantees.md, 4.12 and 6.13). How
much they may cost, and how many knots there are, follows from public facts alone. Rows of persons count as parts of
one row, so numbers of rows here are numbers of persons. Weights of classes, and of rows, do not count: what all rows
weigh together would be private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..data import Columns, Door, Facts, RowMap, Table, Unknown
from ..data.features import FeatureMoments, Features, QuantityFeatures
from ..data.fields import Field, Found, Quantity
from ..data.private import PrivateData
from ..mechanisms.samplers import Floats, Integers
from ..privacy.currencies import GaussianDP, PureDP
from ..privacy.discovery import Discovery
from ..privacy.neighbours import Adjacency
from ..queries.looks import JointHistogram, SignedMagnitudes, joint_sensitivity, most_of
from ..requirements import choice, flag, integer, listed
from ..solvers.precision import deviation, share_of_noise
from . import fourier
from .bins import even_bins, filled, smoothed
from .encoding import Encoding
from .field_features import counted

FAILURE = 0.1  # of delta, for the discovery of values
SHARE, LEAST_SHARE, MOST_SHARE = 0.2, 0.1, 0.3  # of the budget, at precision 1000: less where noise matters less
FIRST, CLOSER = 0.2, 0.1  # of that share: for the first look at quantities, and for the closer one
ROUGH, MOST_FIRST = 300.0, 0.6  # below this precision the first look gets more, up to the second, the closer one less
KNOTS, FEWEST, MOST = 2.5, 4, 32  # the root of the precision divided by the first, within the others
ROWS = 1000  # there is at most one knot for so many rows: with fewer, a curve follows their chance
LINEAR = 20.0  # below this precision quantities are linear
BINS = 64
SCALE_POWER = 0.85
BESIDE_CURVES = 0.4  # of the variance that waves have beside linear columns: curves say most already


@dataclass(frozen=True)
class Schedule:
    """What the looks at a raw table may cost, and how fine its curves are: from public facts.

    ``precision`` is how many rows outweigh the noise of a count, if the whole budget bought one count of every field.
    """

    precision: float
    n_rows: int

    @classmethod
    def of(cls, limit: float, n_rows: int, n_fields: int, adjacency: str) -> Schedule:
        """Return the schedule for a budget of ``limit``, a square of mu."""
        return cls(math.sqrt(limit / (n_fields * Adjacency(adjacency).parts)) * n_rows, n_rows)

    @property
    def share(self) -> float:
        """The part of the budget for all looks."""
        return float(np.clip(SHARE * math.sqrt(1000 / self.precision), LEAST_SHARE, MOST_SHARE))

    @property
    def first(self) -> float:
        """The part of that for the first look at quantities."""
        return float(np.clip(FIRST * (ROUGH / self.precision) ** 0.75, FIRST, MOST_FIRST))

    @property
    def closer(self) -> float:
        """The part of it for a closer look at quantities."""
        return CLOSER * min(1.0, self.precision / ROUGH)

    @property
    def last(self) -> float:
        """The part of it for the joint histogram of all fields."""
        return 1 - self.first - self.closer

    @property
    def n_knots(self) -> int:
        """How many knots a curve has; 0 for a straight line."""
        if self.precision < LINEAR:
            return 0
        return int(np.clip(min(math.sqrt(self.precision) / KNOTS, self.n_rows / ROWS), FEWEST, MOST))


@dataclass(frozen=True, eq=False)
class TabularEncoding(Encoding):
    """How raw tables are brought to the grid. What it learns from the rows it buys at the door of the fit.

    ``interactions="fourier"`` adds cosines and sines of random sums of two or three quantities, drawn with
    ``features_seed``, where public facts tell that there are rows enough (:mod:`dpsk.encodings.fourier`).
    """

    fit_intercept: bool = flag(True)
    interactions: str | None = choice(None, "fourier")
    features_seed: int = integer(0, 0)

    standardize: ClassVar[str] = "private"
    """Features are standardised with what is counted anyway."""

    def require(self, facts: Facts) -> None:
        """Raise ValueError if this encoding is not for these data; called before any cost."""
        if facts.schema is None:
            raise ValueError("a raw table has a schema, but these data are plain numbers")

    def left_out(self, how: RowMap) -> str | None:
        if self.interactions is None or how.waves is not None:
            return None
        return fourier.LEFT_OUT.format(name="interactions", columns="two columns of numbers that have curves")

    def learned(self, door: Door, table: Table) -> RowMap:
        """Return the map of rows onto the grid, after releases that find what is not public."""
        if table.facts.schema is None:
            raise ValueError("a raw table has a schema, but these data are plain numbers")
        raw, fields = door.open(table.raw()), table.facts.schema.fields
        schedule, of_persons = _schedule(raw, fields), table.persons is not None
        edges = _edges(raw, fields, schedule, of_persons=of_persons)
        look = JointHistogram(
            dict(enumerate(fields)),
            edges,
            mechanism=share_of_noise(raw, schedule.share * schedule.last),
            adjacency=raw.adjacency,
            discovery=getattr(raw.currency, "discovery", None),
            of_persons=of_persons,
        )
        counts = raw.draw(look)
        n, noise = raw.n_units, look.noise
        found = [
            counted(field, at, counts[at], edges.get(at), n_knots=schedule.n_knots, n_rows=n, noise=noise)
            for at, field in enumerate(fields)
        ]
        mean = np.clip(np.concatenate([field.sums for field in found]) / n, -1, 1)
        square = np.concatenate([_squares(field.products) for field in found]) / n
        columns = _standardised(mean, square, noise / n, centred=bool(self.fit_intercept))
        products = tuple(field.products / n for field in found)
        moments = FeatureMoments(mean, products, columns.factor, centred=bool(self.fit_intercept))
        features = Features(table.facts.schema, tuple(field.features for field in found), moments)
        waves = None
        if self.interactions is not None:
            waved = fourier.Schedule.of(raw, table.facts.n_scores)
            curved, variance = _with_curves(features), _variance(mean, square, noise / n)
            if 1 < len(curved) <= waved.n_pairs:
                none = np.zeros(0, dtype=np.int64)
                phases = fourier.phases_of(int(self.features_seed), curved, none, variance, waved.n_pairs, fewest=2)
                columns, waves = fourier.beside(columns, mean, variance, phases, BESIDE_CURVES * waved.part)
        return RowMap(table.facts.n_scores, bool(self.fit_intercept), columns=columns, features=features, waves=waves)


def currency_for(facts: Facts | Unknown, epsilon: float, delta: float, adjacency: str) -> GaussianDP | PureDP:
    """Return the currency of a fit on a raw table: with a discovery, if there are values that are not public.

    Raises ValueError if there are and delta is 0.
    """
    fields = () if facts.schema is None else facts.schema.fields
    found = [field.name for field in fields if isinstance(field, Found)]
    columns = len(found)
    if delta == 0:
        _require_public(found)
        return PureDP()
    if not columns:
        return GaussianDP()
    limit = GaussianDP(Discovery(FAILURE * delta, columns, shift=1.0)).limit(epsilon, delta)
    schedule = Schedule.of(limit, facts.n_rows, len(fields), adjacency)
    shift = math.sqrt(schedule.share * schedule.last * limit / (len(fields) * Adjacency(adjacency).parts))
    return GaussianDP(Discovery(FAILURE * delta, columns, shift=shift * (1 + 2.0**-42), most=facts.most_rows))


def _require_public(found: list[str]) -> None:
    if found:
        raise ValueError(
            "delta=0 cannot pay for the discovery of values, which columns need that have no public list: "
            f"{listed(map(repr, found))}. Give lists, columns={{{found[0]!r}: Categories([...])}}, hash values, "
            "Categories(buckets=32) or Text(buckets=256), or give a delta such as 1e-6"
        )


def _schedule(raw: PrivateData, fields: tuple[Field, ...]) -> Schedule:
    """Return the schedule for these data: in mu squared the very one with which :func:`currency_for` reckoned."""
    if isinstance(raw.currency, GaussianDP):
        return Schedule.of(raw.budget.limit, raw.n_units, len(fields), raw.adjacency)
    sensitivity = joint_sensitivity(list(map(most_of, fields)), raw.adjacency)
    noise = deviation(share_of_noise(raw, 1.0), sensitivity) * SignedMagnitudes.unit
    return Schedule(raw.n_units / noise, raw.n_units)


def _edges(raw: PrivateData, fields: tuple[Field, ...], schedule: Schedule, *, of_persons: bool) -> dict[int, Floats]:
    """Return the ends of bins of each quantity that hold about as many rows each, as far as can be seen."""
    quantities = {at: field for at, field in enumerate(fields) if isinstance(field, Quantity)}
    if not quantities:
        return {}
    edges = dict[int, Floats]()
    for at, field in quantities.items():
        if field.low is not None and field.high is not None:
            edges[at] = np.linspace(field.low, field.high, BINS + 1)
    unknown = [at for at in quantities if at not in edges]
    if unknown:
        query, mechanism = SignedMagnitudes(unknown), share_of_noise(raw, schedule.share * schedule.first)
        counts = raw.release(raw.measure(query), mechanism)
        noise = deviation(mechanism, query.sensitivity(raw.adjacency)) * query.unit
        for at, line in zip(unknown, counts, strict=True):
            numbers, zero, none = line[:-1], line[len(query.ends)], line[-1]
            mass = filled(query.edges(), numbers, noise, raw.n_units - zero - none)
            edges[at] = even_bins(query.edges(), mass, BINS)
    closer = JointHistogram(
        quantities,
        edges,
        mechanism=share_of_noise(raw, schedule.share * schedule.closer),
        adjacency=raw.adjacency,
        of_persons=of_persons,
    )
    for at, count in raw.draw(closer).items():
        edges[at] = even_bins(edges[at], smoothed(count.cells, closer.noise), BINS)
    return edges


def _squares(products: Floats) -> Floats:
    return np.diag(products) if products.ndim == 2 else products


def _standardised(mean: Floats, square: Floats, noise: float, *, centred: bool) -> Columns:
    """Return the map of features to columns with their means at 0, divided by a power of their deviations."""
    mean = np.where(np.abs(mean) < 3 * noise, 0.0, mean)
    columns = Columns.within(-1.0, 1.0, len(mean))
    return columns.standardised(_variance(mean, square, noise) ** (-SCALE_POWER / 2), mean if centred else None)


def _variance(mean: Floats, square: Floats, noise: float) -> Floats:
    return np.clip(square - mean * mean, max(noise, 1e-6), 1.0)


def _with_curves(features: Features) -> Integers:
    """Return which features are the linear terms of quantities that have curves."""
    parts = zip(features.parts, features.starts[:-1].tolist(), strict=True)
    at = [start for part, start in parts if isinstance(part, QuantityFeatures) and len(part.knots)]
    return np.array(at, dtype=np.int64)
