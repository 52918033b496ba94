"""The one door: sealed statistics, and the object that opens them when a mechanism has been paid for."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mechanisms.mechanism import Mechanism, Sensitivity
from ..mechanisms.randomness import Bits
from ..mechanisms.samplers import Floats, Integers, permutation
from ..mechanisms.sparse_vector import AboveThreshold, OpenSearch
from ..privacy.amplification import Sampling
from ..privacy.costs import Cost
from ..privacy.currencies import Currency
from ..privacy.ledger import Budget, Ledger
from ..privacy.neighbours import Adjacency
from ..privacy.report import PrivacySpent
from .ahead import Batches
from .rows import Rows
from .weights import finer_sensitivity, kept_bits, on_finer_grid


class Statistic(ABC):
    """A vector of integers that rows determine, and how far one row can move it.

    It sees rows, so it belongs to the trusted core. On a cluster a row's part may depend on the kind of processor that
    computes it, in last bits of exp and log: a sensitivity must hold whatever these are, and not ask for the same ones
    in two passes.
    """

    label: str
    """What the release is called in reports."""

    unit: float
    """What one integer stands for: a power of two that depends on public facts only."""

    evaluations: int = 0
    """How many losses or gradients of each row it computes: what a solver's work is counted in."""

    weighed: ClassVar[bool] = False
    """Whether it counts rows by their weights, where they have some. Others are refused there."""

    @abstractmethod
    def sensitivity(self, adjacency: str) -> Sensitivity:
        """Return the bounds on one row's influence, in multiples of ``unit``."""

    @abstractmethod
    def over(self, rows: Rows, bits: Bits) -> Integers:
        """Return the statistic of these rows; ``bits`` may decide the order in which they are visited."""


class Query(Statistic):
    """A sum over rows: calling it with a chunk returns that chunk's part."""

    def over(self, rows: Rows, bits: Bits) -> Integers:
        return rows.total(self)

    @abstractmethod
    def __call__(self, chunk: Any) -> Integers:
        """Return the sum over the rows of one chunk: a Chunk, or a RawChunk for data in the user's units.

        Where rows have weights, it is the sum of the same integers times these, in two parts
        (:mod:`dpsk.data.weights`).
        """


class NoisyQuery(ABC):
    """A release whose noise goes into the computation instead of onto its result: query and mechanism in one.

    It sees rows and random bits, so it belongs to the trusted core, and proves the guarantee of its ``cost`` itself.
    """

    label: str
    """What the release is called in reports."""

    adjacency: str
    """The neighbours for which it keeps its cost."""

    weighed: ClassVar[bool] = False
    """Whether it counts rows by their weights, where they have some. Others are refused there."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The price of one release, whatever the rows."""

    @abstractmethod
    def check(self, rows: Rows) -> None:
        """Raise ValueError if it was not prepared for the public facts of these rows; called before it is paid."""

    @abstractmethod
    def __call__(self, rows: Rows, bits: Bits) -> Any:
        """Return one release, an array or frozen plain data. It has been paid for."""


class Sealed:
    """An un-noised statistic that can be carried and shifted by public arrays, but not read.

    It refuses every other use: numbers, comparison, iteration, NumPy functions, copies, pickles. Hand it to
    :meth:`SealedRows.release`.
    """

    __slots__ = ("_contents", "_owner", "_shift", "label", "sensitivity", "shape", "unit")

    def __init__(
        self,
        contents: Integers,
        owner: SealedRows,
        unit: float,
        sensitivity: Sensitivity,
        label: str,
        shift: Integers | int = 0,
    ) -> None:
        self._contents, self._owner, self._shift, self.shape = contents, owner, shift, contents.shape
        self.unit, self.sensitivity, self.label = unit, sensitivity, label

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
        steps = self._shift + np.rint(shift / self.unit).astype(np.int64)
        return Sealed(self._contents, self._owner, self.unit, self.sensitivity, self.label, steps)

    __radd__ = __add__
    __array_ufunc__ = None  # NumPy leaves array + sealed to __radd__ and refuses every other ufunc
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Sealed({self.label!r})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            f"the un-noised {self.label!r} is sealed: hand it to the release of the data that it was measured on, with "
            "a mechanism, and work with what comes out"
        )

    __float__ = __int__ = __complex__ = __index__ = __bool__ = __round__ = _refuse
    __len__ = __iter__ = __getitem__ = __contains__ = __array__ = __format__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __matmul__ = __neg__ = __abs__ = _refuse
    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


_CLOSED, _SOLVED = 1e-12, 1e-9  # how exactly a price is met: by a formula, or by a search for the strength


class SealedRows(ABC):
    """Rows of which only paid releases leave: ``measure`` computes a sealed statistic, ``release`` opens it.

    Everything else here is public: the numbers of rows, features and parameters, and the neighbours that sensitivities
    are computed for. Subclasses say how a release is paid.
    """

    _measured: type[Statistic]

    def __init__(self, rows: Rows, ledger: Ledger, bits: Bits, adjacency: Adjacency) -> None:
        self._rows, self._ledger, self._bits, self._adjacency = rows, ledger, bits, adjacency
        self._evaluations: dict[str, float] = {}
        self._part = 1.0  # of all rows, as far as is public

    def _counted_with(self, whole: SealedRows, part: float) -> Self:
        """Return these rows, whose work counts as so large a part of the work on others."""
        self._evaluations, self._part = whole._evaluations, whole._part * part
        return self

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that sensitivities are computed for."""
        return self._adjacency

    @property
    def n_rows(self) -> float:
        """What means divide by: the number of rows, or of persons, or a released estimate of what all rows weigh."""
        return self._rows.n_rows

    @property
    def n_features(self) -> int:
        return self._rows.n_features

    @property
    def n_parameters(self) -> int:
        """Number of weights per class: the features, and one more with an intercept."""
        return self._rows.n_parameters

    @abstractmethod
    def _pay(self, cost: Cost, label: str) -> int:
        """Pay, or raise; return the turn until which what was bought may be used."""

    def measure(self, query: Statistic) -> Sealed:
        """Compute a query over all rows and seal the result. Nothing is spent."""
        if not isinstance(query, self._measured):
            raise TypeError(
                f"measure of {type(self).__name__} takes a {self._measured.__name__}, not {type(query).__name__}"
            )
        self._require_weighed(query)
        with np.errstate(all="ignore"):  # whether some row overflows is nobody's business
            contents = query.over(self._rows, self._bits)
        if query.evaluations:
            done = self._evaluations.get(query.label, 0.0)
            self._evaluations[query.label] = done + query.evaluations * self._part
        if contents.dtype != np.int64:
            raise TypeError(f"{query.label!r} returned {contents.dtype} where 64-bit integers were promised")
        unit, sensitivity = query.unit, query.sensitivity(self.adjacency)
        if isinstance(query, Query) and self._rows.public.weighted:
            bits = kept_bits(sensitivity)
            contents, unit = on_finer_grid(contents, bits), math.ldexp(unit, -bits)
            sensitivity = finer_sensitivity(sensitivity, bits, contents.size)
        return Sealed(contents, self, unit, sensitivity, query.label)

    def _require_weighed(self, query: Statistic | NoisyQuery) -> None:
        if self._rows.public.weighted and not query.weighed:
            raise TypeError(
                f"{query.label!r} does not say that it counts rows by their weights (weighed), but these rows have "
                "some: persons, class_weight and sample_weight need that"
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
            raise ValueError(f"{sealed!r} was measured on other data: each rows' door opens only its own seals")
        mechanism.check(sealed.sensitivity, sealed.shape)
        if isinstance(mechanism, OpenSearch):
            self._ledger.require_own_process()
            if self._searches.get(mechanism) != self._ledger.turn:
                raise ValueError("this search was not opened here, or ended when something else was paid for")
        else:
            self._pay(mechanism.cost, sealed.label)
        with np.errstate(all="ignore"):
            released = mechanism(sealed._contents + sealed._shift, sealed.sensitivity, self._bits)
            if isinstance(released, int):
                return released
            if released.shape != sealed.shape:
                raise TypeError(f"{type(mechanism).__name__} changed the shape of {sealed!r}")
            scaled: Floats | NDArray[Any] = released * sealed.unit
        return scaled

    def open(self, mechanism: AboveThreshold, label: str) -> OpenSearch:
        """Pay for a search whose values are released to it one part after the other, before anything else is paid."""
        if not isinstance(mechanism, AboveThreshold):
            raise TypeError(f"open takes an AboveThreshold, not {type(mechanism).__name__}")
        turn = self._pay(mechanism.cost, label)
        search = OpenSearch(mechanism)
        self._searches[search] = turn
        return search

    @cached_property
    def _searches(self) -> WeakKeyDictionary[OpenSearch, int]:
        return WeakKeyDictionary()

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError("private data cannot be copied or pickled: keep what was released and report()")

    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse_copy


class PrivateData(SealedRows):
    """Private rows behind one door, and the budget of what may leave.

    Formal guarantee: every number that leaves was produced by a mechanism whose cost the ledger had accepted
    first, with the sensitivity that the query promises for this adjacency. By the ledger's filter theorem all of
    them together, and everything computed from them, keep the ledger's budget (docs/guarantees.md, 2.1 to 2.4).
    """

    _measured = Statistic

    def __init__(
        self, rows: Rows, ledger: Ledger, bits: Bits, *, adjacency: str = "zero-out", weight: float | None = None
    ) -> None:
        super().__init__(rows, ledger, bits, Adjacency(adjacency))
        self._order = np.zeros(0, dtype=np.int64)  # units that the coming batches will hold
        self._weight = rows.n_rows if weight is None else weight

    @property
    def n_rows(self) -> float:
        """What means divide by: the number of rows, or of persons, or a released estimate of what all rows weigh."""
        return self._weight

    @property
    def n_units(self) -> int:
        """The number of rows, or of persons: more than that all rows cannot weigh together."""
        return self._rows.n_rows

    @property
    def evaluations(self) -> dict[str, float]:
        """How many losses or gradients per row of all data were computed, by kind of query; expected where sampled."""
        return {label: round(passes, 9) for label, passes in self._evaluations.items()}

    @property
    def norm_range(self) -> tuple[float, float]:
        """Between what norms typical rows lie, as far as public facts tell."""
        return self._rows.public.norm_range

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

    def share(self, parts: float = 1.0, *, of: float | None = None, solved: bool = False) -> float:
        """Return the price of one of ``parts`` releases that share what is left of the budget, or an amount ``of`` it.

        It is a little less than that part, so that all of them fit: rounding makes prices larger by less than
        1e-12, and by less than 1e-9 where the strength of a release is ``solved`` for.
        """
        return (self.remaining if of is None else of) / parts * (1 - (_SOLVED if solved else _CLOSED))

    def holding_back(self, price: float) -> AbstractContextManager[None]:
        """Keep so much of the budget for later: within this context nothing can be bought from it."""
        return self._ledger.holding_back(price)

    def batch(self, size: int | None) -> PrivateData:
        """Return some of the rows behind the same door, with the same budget; all of them if ``size`` is None.

        A batch holds so many rows, or all rows of so many persons. Batches follow a random order of these that is drawn
        without regard to their contents; when too few are left of it a new order begins. A release on a batch costs as
        much as on all rows: nothing is claimed for the sampling.
        """
        if size is None:
            return self
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"size={size!r} must be None or an integer >= 1")
        if size >= self.n_units:
            return self
        if len(self._order) < size:
            self._order = permutation(self.n_units, self._bits)
        chosen, self._order = self._order[:size], self._order[size:]
        rows, part = self._rows.subset(chosen), size / self.n_units
        weight = size if self._weight == self.n_units else self._weight * part
        batch = PrivateData(rows, self._ledger, self._bits, adjacency=self.adjacency, weight=weight)
        return batch._counted_with(self, part)

    def subsample(self, sampling: Sampling, mechanisms: Sequence[Mechanism], label: str) -> Batch:
        """Pay for ``mechanisms`` on a fresh secret batch, all together, then hand it out.

        Each of them opens one sealed statistic of the batch, until something else is paid for: batches follow one
        another and never overlap. Raises :class:`~dpsk.privacy.BudgetExhausted` before a batch is handed out if the
        price does not fit.
        """
        poisson, sampled = sampling.scheme == "poisson", sampling.rate < 1
        if poisson and sampled and self.adjacency is not Adjacency.ZERO_OUT:
            raise ValueError(
                f"adjacency={self.adjacency.value!r} cannot be combined with Poisson sampling: no theorem covers it. "
                "Use sampling without replacement, or adjacency='zero-out'"
            )
        size = sampling.rate * self.n_units
        if not poisson:  # never more than the rate says, but for the rounding of both: prices cover 50 times as much
            size = math.floor(size * (1 + 2.0**-50))
        if not size:
            raise ValueError(f"a batch of {sampling.rate!r} of {self.n_units} rows holds none: raise the rate")
        expected = float(size) if self._weight == self.n_units else self._weight * size / self.n_units
        mechanisms = list(mechanisms)
        if not all(isinstance(mechanism, Mechanism) for mechanism in mechanisms):
            raise TypeError("subsample takes mechanisms: noise inside a computation is proved for all rows only")
        costs = [mechanism.cost for mechanism in mechanisms]
        turn = self._pay(sampling.cost(costs), label)
        rows, adjacency = self._rows, self.adjacency
        if sampled and poisson:
            rows = self._batches.poisson(sampling.rate)
        elif sampled:
            rows = self._batches.without_replacement(int(size))
            adjacency = Adjacency.REPLACE  # the place of a row that leaves is taken by another
        batch = Batch(rows, self._ledger, self._bits, adjacency, costs, expected, turn)
        return batch._counted_with(self, size / self.n_units)

    @cached_property
    def _batches(self) -> Batches:
        return Batches(self._rows, self._bits)

    def _pay(self, cost: Cost, label: str) -> int:
        return self._ledger.charge(cost, label)

    def draw(self, query: NoisyQuery) -> Any:
        """Pay for a release that has its noise inside, then return it.

        Raises :class:`~dpsk.privacy.BudgetExhausted` before anything is drawn if the price does not fit.
        """
        if not isinstance(query, NoisyQuery):
            raise TypeError(f"draw takes a NoisyQuery, not {type(query).__name__}")
        if query.adjacency != self.adjacency:
            raise ValueError(
                f"{query.label!r} was prepared for adjacency={query.adjacency!r}, not {self.adjacency.value!r}"
            )
        self._require_weighed(query)
        query.check(self._rows)
        self._pay(query.cost, query.label)
        with np.errstate(all="ignore"):
            return query(self._rows, self._bits)

    def report(self) -> PrivacySpent:
        """Return the guarantee and what was released so far, as frozen plain data."""
        return PrivacySpent.of(self._ledger, adjacency=self.adjacency.value, private=self._bits.private)


class Batch(SealedRows):
    """A secret random part of the rows, and the releases that were paid for when it was drawn.

    Nothing tells how many rows it holds: ``n_rows`` is the expected number, rate * n. Dividing by the true number
    would reveal it without being paid for. It is summed over and nothing else: other statistics, noise inside a
    computation and batches of batches are proved for all rows only.

    Formal guarantee: at most the releases that were bought leave, each once, at the costs that were priced jointly
    (:class:`~dpsk.privacy.BatchCost`) before it was handed out, and before anything else is paid for
    (docs/guarantees.md, 7.6).
    """

    _measured = Query

    def __init__(
        self,
        rows: Rows,
        ledger: Ledger,
        bits: Bits,
        adjacency: Adjacency,
        bought: list[Cost],
        expected: float,
        turn: int,
    ) -> None:
        super().__init__(rows, ledger, bits, adjacency)
        self._bought, self._expected, self._turn, self._once = bought, expected, turn, threading.Lock()

    @property
    def n_rows(self) -> float:
        """The expected number of rows."""
        return self._expected

    def _pay(self, cost: Cost, label: str) -> int:
        """Use up one of the releases that were bought."""
        self._ledger.require_own_process()
        with self._once:
            if self._ledger.turn != self._turn:  # theorems compose one batch after the other
                raise ValueError("this batch ended when something else was paid for: release from it before that")
            if cost not in self._bought:
                raise ValueError(
                    f"a release of {label!r} at {cost!r} was not bought with this batch, or was made already: what a "
                    "batch may release, and how noisily, is fixed when it is drawn"
                )
            self._bought.remove(cost)
            return self._turn


class Door:
    """What every step of one fit pays and draws with: one ledger, one source of bits, one kind of neighbours."""

    def __init__(self, ledger: Ledger, bits: Bits, adjacency: str) -> None:
        self._ledger, self._bits, self._adjacency = ledger, bits, Adjacency(adjacency)

    def open(self, rows: Rows, *, weight: float | None = None) -> PrivateData:
        """Return these rows behind the door; ``weight`` is what they weigh together, where that was released."""
        return PrivateData(rows, self._ledger, self._bits, adjacency=self._adjacency, weight=weight)

    def report(self, *, complete: bool = True) -> PrivacySpent:
        """Return the guarantee and what was released so far, as frozen plain data."""
        private, adjacency = self._bits.private, self._adjacency.value
        return PrivacySpent.of(self._ledger, adjacency=adjacency, private=private, complete=complete)
