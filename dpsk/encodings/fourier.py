"""Random Fourier features beside linear columns: how many there are, of which columns, and with which frequencies.

How many there are follows from public facts. Where there are any, a small part of the budget tells which columns are
curved: those that hold more than two values besides 0. All else follows from a public seed and from the moments that
were released to standardise the columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data import Columns, PrivateData, Waves
from ..mechanisms import Laplace
from ..mechanisms.randomness import SeededBits
from ..mechanisms.samplers import Floats, Integers
from ..queries import Middles, PositionsOfSome
from ..solvers.precision import deviation, share_of_noise
from .standardization import ColumnMoments

LEAST_PRECISION = 2_500.0  # of Schedule.precision: with less, noise in the waves does more harm than they do good
LEAST_ROWS = 4_000  # with fewer, so many weights fit what is chance in the rows
PAIRS, MOST_PAIRS = 100, 300  # at precision 10,000 or less, growing like its root
MOST_COLUMNS = 3  # in one phase
SLOWEST, OCTAVES = 0.5, 3  # the standard deviation of a phase, in radians, and how many octaves it is spread over
PART, PART_PRECISION = 0.5, 8_000.0  # variance of all waves over that of all linear columns, from this precision on
MIDDLE_SHARE = 0.01
MIDDLE_CLIP = 1.0  # the norm of a row with 16 entries half-way between 0 and 1
SURE = 3.0  # a column is curved if its mean of |x| - x^2 exceeds so many deviations of the noise,
LEAST_PART = 0.1  # and this part of its mean of |x|,
VALUES_SHARE = 0.01
MOST_COMMON = 0.9  # and if two of its bins hold less than so much of its entries other than 0, most likely

LEFT_OUT = (
    "{name}='fourier' added nothing, and waves_ is None: it needs 4,000 rows at least, more if epsilon is small or "
    "classes are many, and {columns}, but not hundreds of them. See docs/curves.md, or leave {name} out"
)


@dataclass(frozen=True)
class Schedule:
    """How many waves a fit can bear, and how large: a rule from public facts.

    ``precision`` is the number of rows over the noise of one sum of rows, if the whole budget buys that sum. Several
    classes have weights of their own each, and share the budget: with K scores it is smaller by the root of K.
    """

    precision: float
    n_rows: int

    @classmethod
    def of(cls, data: PrivateData, n_scores: int | None) -> Schedule:
        """Return the schedule for rows with so many scores each, None for a single one."""
        mechanism = share_of_noise(data, 1.0)
        mu = mechanism.epsilon / math.sqrt(2) if isinstance(mechanism, Laplace) else mechanism.mu
        return cls(mu * data.n_units / data.adjacency.parts / math.sqrt(n_scores or 1), data.n_units)

    @property
    def n_pairs(self) -> int:
        """The number of pairs of a cosine and a sine."""
        if self.precision < LEAST_PRECISION or self.n_rows < LEAST_ROWS:
            return 0
        return int(np.clip(PAIRS * math.sqrt(self.precision / 10_000), PAIRS, MOST_PAIRS))

    @property
    def part(self) -> float:
        """The variance of all waves over that of all linear columns: smaller where noise in waves would do harm."""
        share = min(1.0, self.precision / PART_PRECISION)
        return PART * share * share * share


def curved_columns(raw: PrivateData, data: PrivateData, columns: Columns, moments: ColumnMoments) -> Integers:
    """Return which columns have more than two values besides 0, most likely. ``data`` are the raw rows, placed.

    Two releases tell. The sums of |x| - x^2 leave out columns of -1, 0 and 1, which are most of the columns of
    categories, so that these add nothing to the norm of a row. Of the others positions are counted: two values are in
    two bins, whatever they are.
    """
    query = Middles(data.n_features, clip=MIDDLE_CLIP)
    mechanism = share_of_noise(data, MIDDLE_SHARE)
    middles = data.release(data.measure(query), mechanism) / data.n_units
    noise = deviation(mechanism, query.sensitivity(data.adjacency)) * query.unit / data.n_units
    sizes = middles + moments.variance + np.square(moments.mean)  # the means of |x|
    found = np.flatnonzero((middles > SURE * noise) & (middles > LEAST_PART * sizes))
    if not len(found):
        return found
    mechanism = share_of_noise(raw, VALUES_SHARE)
    positions = PositionsOfSome(raw.n_features, found, columns.low[found], columns.high[found], norm=mechanism.norm)
    counts = raw.release(raw.measure(positions), mechanism)
    noise = deviation(mechanism, positions.sensitivity(raw.adjacency)) * positions.unit
    entries, common = counts.sum(axis=1), np.sort(counts, axis=1)[:, -2:].sum(axis=1)
    several = entries - common > (1 - MOST_COMMON) * entries + noise * math.sqrt(positions.n_bins)
    return np.asarray(found[several])


def with_waves(
    raw: PrivateData, data: PrivateData, columns: Columns, moments: ColumnMoments, seed: int, n_scores: int | None
) -> tuple[Columns, Waves | None]:
    """Return standardised columns with those of their waves, and the waves; the columns alone where there are none.

    ``data`` are the raw rows, placed by the columns. Nothing is released where public facts tell that there are too few
    rows. Where more columns are curved than there are pairs, there are no waves: most columns would be in one phase at
    most.
    """
    schedule = Schedule.of(data, n_scores)
    if not schedule.n_pairs:
        return columns, None
    curved = curved_columns(raw, data, columns, moments)
    if not 1 <= len(curved) <= schedule.n_pairs:
        return columns, None
    others = np.setdiff1d(np.arange(data.n_features), curved)
    phases = phases_of(seed, curved, others, moments.variance, schedule.n_pairs)
    return beside(columns, moments.mean, moments.variance, phases, schedule.part)


Phases: TypeAlias = tuple[Integers, Floats]
"""Columns, and what a standard deviation of each of them adds to each phase, in radians."""


def beside(columns: Columns, mean: Floats, variance: Floats, phases: Phases, part: float) -> tuple[Columns, Waves]:
    """Return columns with those of their waves, and the waves. ``mean`` and ``variance`` are of the placed columns."""
    (at, radians), centred = phases, columns.centre is not None
    n_pairs = radians.shape[1]
    placed = Columns.within(columns.low[at], columns.high[at], len(at))
    placed = placed.standardised(placed.factor, mean[at] if centred else None)
    waves = Waves(at, placed, radians / (2 * math.pi) / np.sqrt(variance[at])[:, None])
    # the mean of a cosine, if its phase is as the normal distribution
    centre = np.concatenate([np.exp(-np.square(radians).sum(axis=0) / 2), np.zeros(n_pairs)])
    ones = np.ones(waves.n_columns)
    factor = math.sqrt(part * math.fsum(np.square(columns.factor) * variance) / n_pairs)
    pairs = (columns.low, -ones), (columns.high, ones), (columns.factor, factor * ones)
    low, high, factors = (np.concatenate(pair) for pair in pairs)
    centres = None if columns.centre is None else np.concatenate([columns.centre, centre])
    return Columns(low, high, factors, centres), waves


def phases_of(
    seed: int, curved: Integers, others: Integers, variance: Floats, n_pairs: int, *, fewest: int = 1
) -> Phases:
    """Return the phases: each is of ``fewest`` to three columns, or of all there are.

    The first column of a phase is a curved one. For each further one a coin decides: it is the next curved one, or one
    of the others, drawn with chances in proportion to their variances. The direction of a phase in its columns is
    uniform, and its length is drawn from a layer of its own between the slowest and the fastest.
    """
    layers, within = _words(seed, "lengths", 2 * n_pairs).reshape(2, n_pairs)
    octaves = OCTAVES * ((layers.argsort(kind="stable") + _uniform(within)) / n_pairs)
    lengths = SLOWEST * np.ldexp(1 + octaves % 1, octaves.astype(np.int64))  # about uniform in their logarithm
    normals = public_normals(seed, MOST_COLUMNS * n_pairs).reshape(n_pairs, MOST_COLUMNS)
    radians = np.zeros((len(variance), n_pairs))
    for k, columns in enumerate(_drawn(seed, curved, others, variance, n_pairs, fewest)):
        direction = normals[k, : len(columns)]
        radians[columns, k] = direction * (lengths[k] / math.sqrt(sum(x * x for x in direction.tolist()) or 1.0))
    at = np.flatnonzero(radians.any(axis=1))
    return at, radians[at]


def _drawn(
    seed: int, curved: Integers, others: Integers, variance: Floats, n_pairs: int, fewest: int
) -> Iterator[list[int]]:
    """Yield the columns of each phase. Curved ones are dealt in a random order, then in another one, and so on."""
    n_decks = 2 + MOST_COLUMNS * n_pairs // len(curved)
    decks = iter(_words(seed, "columns", n_decks * len(curved)).reshape(n_decks, len(curved)))
    coins = _uniform(_words(seed, "coins", MOST_COLUMNS * n_pairs)).reshape(n_pairs, MOST_COLUMNS)
    chances = _uniform(_words(seed, "others", MOST_COLUMNS * n_pairs)).reshape(n_pairs, MOST_COLUMNS)
    left = list[int]()
    for k in range(n_pairs):
        hand, size = list[int](), min(fewest + k % (MOST_COLUMNS - fewest + 1), len(curved) + len(others))
        free: Floats = variance[others]
        while len(hand) < size:
            no_curved, i = set(curved.tolist()) <= set(hand), len(hand)
            if no_curved or (i and free.any() and coins[k, i] < 0.5):
                sums = np.cumsum(free)
                one = min(int(np.searchsorted(sums, chances[k, i] * sums[-1], side="right")), len(others) - 1)
                free[one] = 0.0
                hand.append(int(others[one]))
                continue
            if set(left) <= set(hand):
                left += curved[next(decks).argsort(kind="stable")].tolist()
            hand.append(left.pop(next(at for at, column in enumerate(left) if column not in hand)))
        yield hand


def public_normals(seed: int, n: int) -> Floats:
    """Return ``n`` numbers that are about normal: sums of twelve uniform ones, multiples of 2^-17.

    They belong to the model, so their bits must never change, unlike those of noise.
    """
    parts = _words(seed, "normals", 3 * n).view("<u2").reshape(n, 12)
    normals: Floats = (2 * parts.sum(axis=1, dtype=np.int64) - 12 * (2**16 - 1)) * 2.0**-17
    return normals


def _uniform(words: NDArray[np.uint64]) -> Floats:
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def _words(seed: int, purpose: str, n: int) -> NDArray[np.uint64]:
    """Return ``n`` uniform words of 64 bits, the same ones for ever. The seeds of noise are other numbers."""
    stream = int.from_bytes(f"dpsk waves {purpose}".encode(), "little")
    return np.frombuffer(SeededBits((stream << 64) + seed).take(8 * n), dtype="<u8")
