"""Exponentials and logarithms: the same bits at every place of memory; and what differs between processors."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dpsk import elementwise
from dpsk.losses import Hinge, HuberHinge, Logistic, OneVsRest, Sigmoid, Softmax, SquaredHinge
from dpsk.testing.common import places

N = 20_000  # more than NumPy takes at a time where it has to copy
NUMBERS = np.random.default_rng(0).normal(size=N) * 10.0 ** np.random.default_rng(1).uniform(-3, 2, N)
NUMBERS[:: N // 20] = [0.0, -0.0, 1e-320, 1e300, -1e300, np.inf, -np.inf, np.nan, 709.8, -745.2, *range(10)]
FUNCTIONS = {"exp": NUMBERS, "log": np.abs(NUMBERS), "log1p": np.abs(NUMBERS) - 1}


def bits(x):
    """Return the bits of floats, so that zeros of both signs differ and NaNs do not."""
    return np.where(np.isnan(x), 0, np.ascontiguousarray(x).view(f"i{x.itemsize}"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_of_a_function_depend_on_the_number_alone(name, dtype):
    function, numbers = getattr(elementwise, name), FUNCTIONS[name].astype(dtype)
    assert set(FUNCTIONS) == set(elementwise.__all__)
    whole = function(numbers)
    np.testing.assert_array_equal(whole, getattr(np, name)(numbers))
    for where, place in places(numbers):
        assert np.array_equal(bits(function(place)), bits(whole)), where
    for where, place in places(numbers.reshape(-1, 10)):
        assert np.array_equal(bits(function(place)).ravel(), bits(whole)), where
    for n in range(71):
        for first in (0, 1, 2, 3, 5, 8, 13, 250, 251):
            for some in (numbers[first : first + n], numbers[first : first + n][::-1].copy()[::-1]):
                assert np.array_equal(bits(function(some)), bits(whole[first : first + n])), (n, first)
    alone = np.array([function(number) for number in numbers[:300]], dtype=dtype)
    assert np.array_equal(bits(alone), bits(whole[:300]))


def test_an_array_in_order_is_not_copied():
    for array in (np.zeros((3, 4)), np.zeros((3, 4), order="F"), np.zeros(5)[1:4]):
        assert elementwise._in_order(array) is array
    for array in (np.zeros(6)[::2], np.zeros(6)[::-1], np.zeros((3, 4))[:, 1:], np.zeros(9, "u1")[1:].view("f8")):
        in_order = elementwise._in_order(array)
        assert in_order.flags.c_contiguous
        assert in_order.flags.aligned


# What differs, and what does not, where NumPy finds another processor.

LOSSES = {
    "Hinge": Hinge(),
    "HuberHinge": HuberHinge(),
    "SquaredHinge": SquaredHinge(),
    "OneVsRest of HuberHinge": OneVsRest(HuberHinge(), 3),
    "Logistic": Logistic(),
    "Sigmoid": Sigmoid(),
    "Softmax": Softmax(3),
}

HASHES = """
import hashlib, json
import numpy as np
from test_elementwise import LOSSES
from dpsk.data import ArrayRows, Columns, RowMap
from dpsk.losses import HuberHinge, Logistic
from dpsk.queries import GradientSum, HessianSum, LossesAlong, Moments, RowNorms

def of(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()

found, rng = {}, np.random.default_rng(0)
for name, loss in LOSSES.items():
    scores = rng.normal(size=(50_000,) if loss.n_classes is None else (50_000, 3)) * 4
    y = rng.choice([-1.0, 1.0], 50_000) if loss.n_classes is None else rng.integers(3, size=50_000)
    found[name] = of(loss.value(scores, y), loss.derivative(scores, y))
X, y = rng.normal(size=(20_000, 6)), rng.choice([-1, 1], 20_000)
rows, w = ArrayRows(X, y), rng.normal(size=7)
for loss in (HuberHinge(), Logistic()):
    found[f"losses along a line of {loss!r}"] = of(
        *(rows.total(LossesAlong(loss, w, w / 4, range(8), clip=clip)) for clip in np.linspace(0.1, 9, 40))
    )
placed = ArrayRows(X, y, RowMap(columns=Columns.within(-3, 3, 6), fit_intercept=False))
found["moments and norms"] = of(placed.total(Moments(6, clip=1.0)), rows.total(RowNorms()))
found["gradient of HuberHinge"] = of(rows.total(GradientSum(HuberHinge(), w, clip=1.0)))
found["Hessian of HuberHinge"] = of(rows.total(HessianSum(HuberHinge(), w, clip=1.0)))
print(json.dumps(found))
"""

USE_EXP = {"Logistic", "Sigmoid", "Softmax"}


@pytest.fixture(scope="module")
def hashes():
    """Return what two processes find: one as it is, one that NumPy takes for an older processor."""
    here = os.path.dirname(__file__)
    paths = os.pathsep.join([os.path.dirname(here), here])
    found = []
    for features in ("", "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"):
        environment = {**os.environ, "PYTHONPATH": paths, "NPY_DISABLE_CPU_FEATURES": features}
        command = [sys.executable, "-W", "ignore", "-c", HASHES]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


@pytest.mark.thorough
@pytest.mark.slow
def test_what_is_said_to_have_the_same_bits_on_every_processor_has_them(hashes):
    newer, older = hashes
    assert {name for name in newer if newer[name] != older[name]} <= USE_EXP
    assert set(newer) > USE_EXP


@pytest.mark.slow
def test_losses_with_exp_differ_between_processors_with_and_without_avx512(hashes):
    newer, older = hashes
    simd = np.__config__.CONFIG["SIMD Extensions"]["found"]
    if not {"AVX512_SKX", "X86_V4"} & {*simd}:
        pytest.skip("NumPy finds no AVX-512 here")
    assert {name for name in newer if newer[name] != older[name]} == USE_EXP
