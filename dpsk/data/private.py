"""The one door: sealed statistics, and the object that opens them when a mechanism has been paid for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mechanisms.base import Mechanism, Sensitivity
from ..mechanisms.exact import Floats, Integers, permutation
from ..mechanisms.randomness import Bits
from ..privacy.currencies import Currency
from ..privacy.ledger import Budget, Ledger
from ..privacy.report import NEIGHBOURS, PrivacySpent
from .rows import Rows

__all__ = ["PrivateData", "Query", "Sealed"]


class Query(ABC):
    """A sum over rows, and how far one row can move it.

    Calling it with a chunk returns that chunk's part of the sum in multiples of ``unit``, a power of two that depends
    on public facts only. Queries see rows, so they belong to the trusted core.
    """

    label: str
    """What the release is called in reports."""

    unit: float
    """The spacing of the grid on which the sum lies."""

    @abstractmethod
    def sensitivity(self, adjacency: str) -> Sensitivity:
        """Return the bounds on one row's influence, in multiples of ``unit``."""

    @abstractmethod
    def __call__(self, chunk: Any) -> Integers:
        """Return the sum over the rows of one chunk: a Chunk, or a RawChunk for data in the user's units."""


class Sealed:
    """An un-noised statistic that can be carried and shifted by public arrays, but not read.

    It refuses every other use: numbers, comparison, iteration, NumPy functions, copies, pickles. Hand it to
    :meth:`PrivateData.release`.
    """

    __slots__ = ("_contents", "_owner", "_shift", "label", "sensitivity", "shape", "unit")

    def __init__(
        self,
        contents: Integers,
        owner: PrivateData,
        *,
        shape: tuple[int, ...],
        unit: float,
        sensitivity: Sensitivity,
        label: str,
        shift: Integers | int = 0,
    ) -> None:
        self._contents, self._owner, self._shift = contents, owner, shift
        self.shape, self.unit, self.sensitivity, self.label = shape, unit, sensitivity, label

    def __add__(self, public: ArrayLike) -> Sealed:
        """Return the statistic plus a public number or array of its shape, rounded to the grid.

        The sensitivity stays the same. A shape that would broadcast is refused: one price would buy many releases.
        """
        shift = np.asarray(public, dtype=np.float64)
        if shift.ndim > 0 and shift.shape != self.shape:
            raise ValueError(f"a shift of {self.label!r} must have its shape {self.shape}, not {shift.shape}")
        bound = 2.0**60 * self.unit
        if not (np.abs(shift) < bound).all() or not (np.abs(shift + self._shift * self.unit) < bound).all():
            raise ValueError(
                f"shifts of {self.label!r} must be finite and below 2**60 grid units of {self.unit:g} in all"
            )
        return Sealed(
            self._contents,
            self._owner,
            shape=self.shape,
            unit=self.unit,
            sensitivity=self.sensitivity,
            label=self.label,
            shift=self._shift + np.rint(shift / self.unit).astype(np.int64),
        )

    __radd__ = __add__
    __array_ufunc__ = None  # NumPy leaves array + sealed to __radd__ and refuses every other ufunc
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sealed({self.label!r})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"the un-noised {self.label!r} is sealed: hand it to PrivateData.release with a mechanism, "
            "and work with what comes out"
        )

    __float__ = __int__ = __complex__ = __index__ = __bool__ = __round__ = _refuse
    __len__ = __iter__ = __getitem__ = __contains__ = __array__ = __format__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __matmul__ = __neg__ = __abs__ = _refuse
    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


class PrivateData:
    """Private rows behind one door.

    ``measure`` computes a sealed statistic, ``release`` pays for a mechanism and lets it out with noise.
    Everything else here is public: the numbers of rows, features and parameters, the adjacency, and the state of
    the budget, which depends only on what was released before.

    Formal guarantee: every number that leaves was produced by a mechanism whose cost the ledger had accepted
    first, with the sensitivity that the query promises for this adjacency. By the ledger's filter theorem all of
    them together, and everything computed from them, keep the ledger's budget.
    """

    def __init__(self, rows: Rows, ledger: Ledger, bits: Bits, *, adjacency: str = "zero-out") -> None:
        if adjacency not in NEIGHBOURS:
            raise ValueError(f"adjacency={adjacency!r} must be one of {sorted(NEIGHBOURS)}")
        self._rows, self._ledger, self._bits = rows, ledger, bits
        self.adjacency = adjacency
        self._order = np.zeros(0, dtype=np.int64)  # rows that the coming batches will hold

    @property
    def n_rows(self) -> int:
        return self._rows.n_rows

    @property
    def n_features(self) -> int:
        return self._rows.n_features

    @property
    def n_parameters(self) -> int:
        """Number of weights per class: the features, and one more with an intercept."""
        return self._rows.n_parameters

    @property
    def norm_range(self) -> tuple[float, float]:
        """Between what norms typical rows lie, as far as public facts tell."""
        return self._rows.norm_range

    @property
    def budget(self) -> Budget:
        """The guarantee promised for everything released."""
        return self._ledger.budget

    @property
    def currency(self) -> Currency:
        """What prices are measured in."""
        return self._ledger.budget.currency

    @property
    def remaining(self) -> float:
        """What is left of the budget: a price of exactly this much still fits."""
        return self._ledger.remaining

    def portion(self, parts: float) -> float:
        """Return the price of one of ``parts`` equal portions of the whole budget."""
        return self._ledger.portion(parts)

    def batch(self, size: int | None) -> PrivateData:
        """Return some of the rows behind the same door, with the same budget; all of them if ``size`` is None.

        Batches follow a random order of the rows that is drawn without regard to their contents; when too few are
        left of it a new order begins. A release on a batch costs as much as on all rows: nothing is claimed for
        the sampling.
        """
        if size is None:
            return self
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"size={size!r} must be None or an integer >= 1")
        if size >= self.n_rows:
            return self
        if len(self._order) < size:
            self._order = permutation(self.n_rows, self._bits)
        chosen, self._order = self._order[:size], self._order[size:]
        return PrivateData(self._rows.subset(chosen), self._ledger, self._bits, adjacency=self.adjacency)

    def measure(self, query: Query) -> Sealed:
        """Compute a query over all rows and seal the result. Nothing is spent."""
        if not isinstance(query, Query):
            raise TypeError(f"measure takes a Query, not {type(query).__name__}")
        with np.errstate(all="ignore"):  # whether some row overflows is nobody's business
            contents = self._rows.total(query)
        if contents.dtype != np.int64:
            raise TypeError(f"{query.label!r} returned {contents.dtype} where 64-bit integers were promised")
        return Sealed(
            contents,
            self,
            shape=contents.shape,
            unit=query.unit,
            sensitivity=query.sensitivity(self.adjacency),
            label=query.label,
        )

    def release(self, sealed: Sealed, mechanism: Mechanism) -> Any:
        """Pay for ``mechanism``, then return what it makes of the sealed statistic: an array, or an index.

        Raises :class:`~dpsk.privacy.BudgetExhausted` before anything is drawn if the price does not fit.
        """
        if not isinstance(sealed, Sealed) or not isinstance(mechanism, Mechanism):
            raise TypeError(
                f"release takes what measure returned and a Mechanism, not {type(sealed).__name__} and "
                f"{type(mechanism).__name__}"
            )
        if sealed._owner is not self:
            raise ValueError(f"{sealed!r} was measured on other data: each PrivateData opens only its own seals")
        mechanism.check(sealed.sensitivity)
        if mechanism.selects and len(sealed.shape) != 1:
            raise ValueError(
                f"{type(mechanism).__name__} chooses along one axis, but {sealed!r} has {len(sealed.shape)}"
            )
        self._ledger.charge(mechanism.cost, sealed.label)
        with np.errstate(all="ignore"):
            released = mechanism(sealed._contents + sealed._shift, sealed.sensitivity, self._bits)
            if isinstance(released, int):
                return released
            if released.shape != sealed.shape:
                raise TypeError(f"{type(mechanism).__name__} changed the shape of {sealed!r}")
            scaled: Floats | NDArray[Any] = released * sealed.unit
        return scaled

    def report(self) -> PrivacySpent:
        """Return the guarantee and what was released so far, as frozen plain data."""
        return PrivacySpent.of(self._ledger, adjacency=self.adjacency, private=self._bits.private)

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError("private data cannot be copied or pickled: keep what was released and report()")

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy
