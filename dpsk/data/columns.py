"""Columns in comparable units: a public map of each entry, and its way back for coefficients.

Whatever is learned from data for this map was released before (:mod:`dpsk.encodings.standardization`); bounds given by
the user are public. Each entry is mapped on its own, and zero stays zero, so that sparse data stay sparse; centring is
kept apart, as one vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ..mechanisms.samplers import Floats


@dataclass(frozen=True, eq=False)
class Columns:
    """Entry x of column j becomes ``factor[j] * (place(x) - centre[j])``.

    ``place`` clips x to [low[j], high[j]] and maps that interval into [-1, 1], with 0 (or, if 0 is outside, the bound
    nearest to it) at 0. ``centre`` is None where columns are not centred.
    """

    low: Floats
    high: Floats
    factor: Floats
    centre: Floats | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a map that no bound on a row's part is proved for."""
        parts = {"low": self.low, "high": self.high, "factor": self.factor, "centre": self.centre}
        for name, part in parts.items():
            if part is None and name == "centre":
                continue
            if not isinstance(part, np.ndarray) or part.shape != self.low.shape or part.ndim != 1:
                raise ValueError(f"{name} of Columns must be an array with one number per column")
            good = (part >= 2.0**-400) & (part <= 2.0**400) if name == "factor" else np.isfinite(part)
            if not good.all():
                wanted = "lie between 2**-400 and 2**400" if name == "factor" else "be a finite number"
                column = int(np.argmin(good))
                raise ValueError(f"{name}={float(part[column])!r} of column {column} must {wanted}")
        if not (self.low <= self.high).all():
            raise ValueError("low of Columns must not be above high in any column")

    @classmethod
    def within(cls, low: ArrayLike, high: ArrayLike, n_features: int) -> Self:
        """Return the map that brings columns from public bounds, numbers or arrays, into [-1, 1]."""
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), n_features).copy() for b in (low, high))
        return cls(low, high, np.ones(n_features))

    def standardised(self, factor: Floats, centre: Floats | None) -> Columns:
        """Return the same bounds with another factor and centre (in units of ``place``)."""
        return Columns(self.low, self.high, factor, centre)

    @property
    def origin(self) -> Floats:
        """The value of each column that is placed at 0."""
        origin: Floats = np.clip(0.0, self.low, self.high)
        return origin

    @property
    def width(self) -> Floats:
        """The length in each column that becomes 1; it is 1 for a column whose bounds are equal, or nearly."""
        width = np.maximum(self.high - self.origin, self.origin - self.low)
        return np.where(width > 2.0**-400, width, 1.0)

    def place(self, x: Floats, columns: slice | np.ndarray = slice(None)) -> Floats:
        """Return entries of the given columns in [-1, 1]: one row per line, or a flat list of entries."""
        x = np.clip(x, self.low[columns], self.high[columns])
        x -= self.origin[columns]
        x /= self.width[columns]
        return x

    def in_user_units(self, w: Floats, fit_intercept: bool) -> Floats:
        """Return weights for the user's columns: the same scores wherever no bound clips.

        ``w`` and the result have shape (p,) or (p, K); their last row is the intercept if there is one.
        """
        d = len(self.factor)
        slopes = w[:d] * (self.factor if w.ndim == 1 else self.factor[:, None])
        at = self.origin / self.width + (0.0 if self.centre is None else self.centre)
        in_units = w.copy()
        in_units[:d] = (slopes.T / self.width).T
        if fit_intercept:
            in_units[d] -= at @ slopes
        return in_units
