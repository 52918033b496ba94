"""The scattering transform of the examples: its numbers, and that an image becomes a function of itself."""

import numpy as np
import pytest
from scipy import fft
from sklearn.base import clone
from sklearn.datasets import load_digits

from dpsk import Chunks, DPLogisticRegression, check_pipeline, make_pipeline
from examples import scattering
from examples.scattering import Scattering

SMALL = {"image_shape": (8, 8), "scales": 1, "windows": (4, 4)}
BANK = ((28, 28), 6, 2, (7, 5))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def plain(image, n_orientations):
    """Return the coefficients of two scales without any shortcut: on all pixels, in double precision."""
    padded = np.pad(image, 2, "reflect")
    assert padded.shape == (32, 32)
    averages = {
        (times, r): scattering.window_weights(28, 32, 2, count, r).astype(float)
        for times, count in ((1, 7), (2, 5))
        for r in (0, 1)
    }

    def averaged(values, times, r):
        weights = averages[times, r]
        return weights @ values[:: 2**r, :: 2**r] @ weights.T

    def moduli(values, j):
        waves = [scattering.morlet((32, 32), j, k, n_orientations) for k in range(n_orientations)]
        return [np.abs(fft.ifft2(fft.fft2(values) * fft.fft2(wave))) for wave in waves]

    def contrast(channels):
        return channels / (channels.mean(axis=0) + 0.01)

    fine, coarse = moduli(padded, 0), moduli(padded, 1)
    once = [contrast(np.array([averaged(v, 1, r) for v in values])) for r, values in enumerate((fine, coarse))]
    twice = [averaged(v, 2, 1) / (averaged(first, 2, 0) + 0.01) for first in fine for v in moduli(first, 1)]
    return np.array([averaged(padded, 1, 0)]), np.concatenate(once), np.array(twice)


def test_coefficients_are_those_of_a_computation_without_shortcuts():
    image = np.random.default_rng(0).random((28, 28))
    found = scattering.filter_bank(*BANK).scattered(image.ravel().astype(np.float32))
    assert [channels.shape for channels in found] == [(1, 7, 7), (12, 7, 7), (36, 5, 5)]
    for some, expected in zip(found, plain(image, 6), strict=True):
        np.testing.assert_allclose(some, expected, atol=2e-5)  # single precision; ratios are up to 10


def test_a_wave_along_an_orientation_is_seen_by_its_wavelet():
    bank = scattering.filter_bank(*BANK)
    y, x = np.mgrid[:28, :28]
    for k in range(6):
        angle = np.pi * k / 6
        wave = np.cos(0.75 * np.pi * (np.cos(angle) * x + np.sin(angle) * y))
        _, once, _ = bank.scattered(wave.ravel().astype(np.float32))
        assert once[:6, 3, 3].argmax() == k


def test_groups_of_an_image_have_mean_0_and_variance_1_but_for_what_keeps_them_finite():
    image = np.random.default_rng(0).random(784).astype(np.float32)
    row = Scattering().fit_transform(image[None])[0]
    start = 0
    for channels in scattering.filter_bank(*BANK).scattered(image):
        size = min(2, len(channels))
        for first in range(0, len(channels), size):
            values = channels[first : first + size]
            made = row[start : start + values.size]
            assert abs(made.mean()) < 1e-5
            assert made.var() == pytest.approx(values.var() / (values.var() + scattering.FAINT), rel=1e-4)
            start += values.size
    assert start == len(row)


def test_an_image_without_contrast_becomes_nearly_nothing():
    assert np.abs(Scattering().fit_transform(np.full((1, 784), 0.5))).max() < 1e-2  # rounding, over the root of FAINT


@pytest.mark.parametrize(
    "given", [SMALL, {"image_shape": (28, 28)}, {"image_shape": (9, 13), "scales": 3, "windows": (3, 2)}]
)
def test_an_image_alone_and_among_others_has_the_same_bits(given):
    X = np.random.default_rng(0).random((40, np.prod(given["image_shape"]))).astype(np.float32)
    step = Scattering(**given)
    together = step.fit_transform(X)
    assert len(np.unique(together, axis=0)) == len(X)
    for k in (0, 17, 39):
        assert (step.transform(X[k : k + 1]) == together[k]).all()
    others = 10 * X[::-1]
    others[5] = X[5]
    assert (step.transform(others)[5] == together[5]).all()


def test_nothing_is_learned_from_rows(digits):
    X, _ = digits
    one, other = Scattering(**SMALL).fit(X[:10]), Scattering(**SMALL).fit(X[10:] * 3)
    assert vars(one) == vars(other)
    assert (Scattering(**SMALL).transform(X[:5]) == one.transform(X[:5])).all()


@pytest.mark.slow
def test_a_private_pipeline_takes_it_and_chunks_give_the_bits_of_memory(digits):
    X, y = digits
    assert check_pipeline(make_pipeline(Scattering(**SMALL), DPLogisticRegression())).safe
    pipeline = make_pipeline(Scattering(**SMALL), DPLogisticRegression(epsilon=4.0, random_state=0))
    kept = clone(pipeline).fit(X, y)
    streamed = pipeline.fit(Chunks(lambda: zip(np.array_split(X, 7), np.array_split(y, 7), strict=True)))
    assert (kept[-1].coef_ == streamed[-1].coef_).all()
    assert (kept.predict(X) == streamed.predict(X)).all()


def test_errors_name_the_parameter_and_the_value(digits):
    X, _ = digits
    with pytest.raises(ValueError, match=r"image_shape=\(28, 28\) does not fit X, which has 64 columns"):
        Scattering().fit(X)
    with pytest.raises(ValueError, match="group_size=4 does not divide n_orientations=6"):
        Scattering(**SMALL, group_size=4).fit(X)
