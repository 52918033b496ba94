"""The checks themselves: what they accept, and that each catches the bug it is there for.

check_loss is tested with the losses too, check_query with the queries, check_mechanism in test_check_mechanism.
"""

import dataclasses
import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp
from noisy_descent import NoisyDescent

from dpsk.data import ArrayRows, PrivateData, Rows
from dpsk.losses import HuberHinge, Logistic, OneVsRest, Softmax
from dpsk.testing import check_loss, check_rows, check_solver, find_peeks
from dpsk.testing.common import places


def test_check_rows_accepts_a_backend_outside_the_package():
    class Halves(Rows):
        """Two ArrayRows side by side, as two workers would hold them."""

        def __init__(self, X, y, how):
            half = len(y) // 2
            parts = [slice(0, half), slice(half, None)] if half else [slice(None)]
            self.parts = [ArrayRows(sp.csr_matrix(X[p]), y[p], how) for p in parts]
            self.public, self.given = how.of_shape(*X.shape), (X, y, how)

        def total(self, kernel):
            return sum(part.total(kernel) for part in self.parts)

        def rows_at(self, indices, n_units):
            X, y, how = self.given
            return Halves(X[indices], y[indices], how)

    check_rows(Halves)


@pytest.mark.parametrize("what", ["float32", "a row lost", "no intercept"])
def test_check_rows_catches(what):
    def make(X, y, how):
        if what == "float32":
            X = X.clip(-1e30, 1e30).astype(np.float32)
        if what == "a row lost" and len(y) > 1:
            X, y = X[1:], y[1:]
        if what == "no intercept":
            how = dataclasses.replace(how, fit_intercept=False)
        return ArrayRows(X, y, how)

    with pytest.raises(AssertionError):
        check_rows(make)


@pytest.mark.slow
def test_check_solver_accepts_an_honest_solver():
    check_solver(NoisyDescent())
    check_solver(NoisyDescent(), n_classes=3)
    check_solver(NoisyDescent(), loss=HuberHinge())
    check_solver(NoisyDescent(step_size=6.0), loss=OneVsRest(HuberHinge(), 3), n_classes=3)


def test_check_solver_catches_one_that_does_not_optimise():
    with pytest.raises(AssertionError, match="optimum"):
        check_solver(NoisyDescent(steps=3))


HONEST = """
from dataclasses import dataclass
import numpy as np
from dpsk.mechanisms import Gaussian
from dpsk.queries import GradientSum
from dpsk.solvers import Solver

@dataclass(frozen=True)
class Planted(Solver):
    def iterates(self, data, objective):
        w = np.zeros(objective.shape)
        for _ in range(60):
            sealed = data.measure(GradientSum(objective.loss, w, clip=2.0))
            gradient = data.release(sealed, Gaussian.priced(data.portion(60), data.currency))
            w = w - 3 * (gradient / data.n_rows + objective.penalty.gradient(w))
            {line}
            yield w
"""

PEEKS = {
    "rows": "w = w + data._rows.n_rows",
    "contents": "w = sealed._contents",
    "name-mangled": "w = sealed.__dict__",
    "slots": "w = type(sealed).__slots__",
    "getattr": "w = getattr(sealed, '_con' + 'tents')",
    "vars": "w = vars(data)",
    "object": "w = object.__getattribute__(sealed, 'x')",
    "ledger": "data._ledger.budget = None",
    "charge": "data.ledger.charge(None, 'x')",
    "subclass of the door": "from dpsk.data.arrays import ArrayRows",
    "module of rows": "from dpsk.data import rows",
    "imports a ledger": "from dpsk.privacy import Ledger",
    "query": "from dpsk.data import Query",
    "random bits": "from dpsk.mechanisms import SystemBits",
    "own mechanism": "\n            class M(Gaussian):\n                def __call__(self, v, s, b): return v",
    "own noise": "w = w + np.random.normal(size=w.shape)",
    "numpy.random": "from numpy import random",
    "random": "import random",
    "operating system": "import os",
    "garbage collector": "import gc",
    "inspection": "from inspect import currentframe",
    "estimators": "from dpsk.estimators import classifier",
    "eval": "w = eval('sealed')",
    "builtins": "w = __builtins__",
    "sets an attribute": "data.adjacency = 'replace'",
    "testing": "from dpsk.testing import find_peeks",
    "star": "from dpsk.data import *",
    "mechanism by inheritance": "\n            class M(Gaussian):\n                cost = None",
    "own loss": "\n            class L(Logistic):\n                pass",
    "lambda as a method": "\n            class M:\n                __call__ = lambda self, v, s, b: v",
    "pattern": "\n            match sealed:\n                case PrivateData(_contents=c): w = c",
    "own contents": "w = self._contents",
    "format": "w = '{0._contents}'.format(sealed)",
    "attrgetter": "w = typing.operator.attrgetter('_contents')(sealed)",
    "module of a module": "from dpsk.mechanisms.randomness import os",
    "made class": "from dataclasses import make_dataclass",
}


def plant(tmp_path, line):
    path = tmp_path / "planted.py"
    path.write_text(HONEST.format(line=line))
    spec = importlib.util.spec_from_file_location("planted", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "planted", module)
        spec.loader.exec_module(module)
        check_solver(module.Planted())


def test_check_solver_catches_one_that_diverges(tmp_path):
    with pytest.raises((AssertionError, ValueError), match="finite"):
        plant(tmp_path, "w = w * 1e200")


def test_the_planted_solver_is_honest_without_its_plant(tmp_path):
    plant(tmp_path, "pass")


@pytest.mark.parametrize("peek", [name for name in PEEKS if name != "star"])
def test_a_planted_solver_that_peeks_fails_the_suite(peek, tmp_path):
    with pytest.raises(AssertionError, match="must not see"):
        plant(tmp_path, PEEKS[peek])


@pytest.mark.parametrize("peek", PEEKS)
def test_find_peeks_names_the_line(peek):
    source = PEEKS[peek] if peek == "star" else HONEST.format(line=PEEKS[peek])
    assert find_peeks(source)
    assert all(note.startswith("line ") for note in find_peeks(source))


def test_a_solver_must_be_frozen():
    @dataclasses.dataclass
    class Loose(NoisyDescent.__mro__[1]):
        def iterates(self, data: PrivateData, objective):
            yield np.zeros(objective.shape)

    with pytest.raises(AssertionError, match="frozen"):
        check_solver(Loose())


@dataclasses.dataclass(frozen=True)
class _Placed(Logistic):
    """A loss whose last bit depends on where a margin lies, as that of NumPy's exp does on some processors."""

    how: str = "backwards"
    part: str = "slope"

    def _off(self, part, margin):
        noticed = {
            "not": False,
            "backwards": margin.strides[0] < 0,
            "apart": abs(margin.strides[0]) > margin.itemsize,
            "address": margin.ctypes.data % 32 == 8,
            "length": len(margin) == 69,
            "tail": np.arange(len(margin)) >= len(margin) // 8 * 8,
            "single": margin.dtype == np.float32 and margin.strides[0] < 0,
        }[self.how]
        return np.where(noticed & (part == self.part), 1 + 2.0**-20, 1.0).astype(margin.dtype)

    def phi(self, margin):
        return super().phi(margin) * self._off("phi", margin)

    def slope(self, margin):
        return super().slope(margin) * self._off("slope", margin)

    def curvature(self, margin):
        return super().curvature(margin) * self._off("curvature", margin)


def test_check_loss_accepts_a_loss_that_does_not_look_at_memory():
    check_loss(_Placed("not"))


@pytest.mark.parametrize("part", ["phi", "slope", "curvature"])
@pytest.mark.parametrize("how", ["backwards", "apart", "address", "length", "tail", "single"])
def test_check_loss_catches_one_whose_bits_depend_on_the_place_of_a_row(how, part):
    with pytest.raises(AssertionError, match=f"{part}.* depends on (where|other rows)"):
        check_loss(_Placed(how, part))


@dataclasses.dataclass(frozen=True)
class _PlainSums(Softmax):
    """Sums over classes by NumPy, which adds in another order where classes lie apart."""

    part: str = "value"

    def of_margins(self, margins):
        if self.part != "value":
            return super().of_margins(margins)
        top = margins.max(axis=1)
        return top + np.log(np.exp(margins - top[:, None]).sum(axis=1))

    def derivative(self, scores, y):
        if self.part != "derivative":
            return super().derivative(scores, y)
        p = np.exp(scores - scores.max(axis=1)[:, None])
        p /= p.sum(axis=1)[:, None]
        p[np.arange(len(y)), y] -= 1
        return p


@pytest.mark.parametrize("part", ["value", "derivative"])
def test_check_loss_catches_sums_over_classes_in_an_order_that_depends_on_the_array(part):
    with pytest.raises(AssertionError, match=f"{part}.* depends on (where|other rows)"):
        check_loss(_PlainSums(17, part), n_classes=17)


@pytest.mark.parametrize("shape", [(7,), (5, 3)])
def test_places_hold_the_same_numbers_in_other_strides_orders_and_addresses(shape):
    numbers = np.random.default_rng(0).normal(size=shape)
    strides, addresses = set(), set()
    for where, place in places(numbers):
        assert np.array_equal(place, numbers), where
        strides.add(place.strides)
        addresses.add(place.ctypes.data % 64 // 8)
        assert place.flags.aligned or where == "1 bytes on"
    assert {step[0] // 8 < 0 for step in strides} == {False, True}
    assert len(addresses) >= 4
    if len(shape) == 2:
        assert any(abs(down) < abs(across) for down, across in strides)
        assert any(across < 0 for _, across in strides)
