"""A scattering transform of images: fixed features, which learn nothing from rows and therefore cost no privacy.

An image is convolved with wavelets of several orientations and scales, and moduli are taken. These are convolved once
more, and all of them are averaged over small windows (Bruna & Mallat 2013). A linear model on such features is far
better than one on pixels, also under differential privacy (Tramèr & Boneh 2021). Copy this file into your project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import fft
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import validate_data

__all__ = ["Scattering"]

Shape = tuple[int, int]
CONTRAST = np.float32(0.01)
"""What is added to a coefficient before others are divided by it: fainter edges are not enlarged to full contrast."""
FAINT = np.float32(1e-5)
"""What is added to the variance of a group, so that an image without contrast becomes zeros."""


class Scattering(TransformerMixin, BaseEstimator):
    """Scattering coefficients of grey images, averaged over windows and normalised within each image.

    The columns of a row are the pixels of one image, from 0 to 1, line by line. Nothing is learned from rows. Each
    image is computed by itself, by the same operations on arrays of the same shapes, so that its bits do not depend on
    other rows.

    Parameters
    ----------
    image_shape : tuple of two int
        Height and width.
    n_orientations : int
        How many directions the wavelets have.
    scales : int
        How many sizes the wavelets have.
    windows : tuple of two int
        Into how many windows each side is divided: for the pixels and the moduli of one convolution, and for those of
        two, which are more numerous and can do with fewer.
    group_size : int
        The coefficients of so many neighbouring orientations get mean 0 and variance 1 together, in every image. The
        averages of the pixels are a group of their own. Has to divide ``n_orientations``.
    """

    def __init__(self, image_shape=(28, 28), n_orientations=6, scales=2, windows=(7, 5), group_size=2):
        self.image_shape = image_shape
        self.n_orientations = n_orientations
        self.scales = scales
        self.windows = windows
        self.group_size = group_size

    def fit(self, X, y=None):
        """Check the parameters and the number of columns."""
        self._checked(X, reset=True)
        return self

    def transform(self, X):
        """Return one row of coefficients per image, in single precision."""
        X, bank = self._checked(X, reset=False)
        features = np.empty((len(X), bank.width), np.float32)
        for image, row in zip(X, features, strict=True):  # one by one: bits of a batch could depend on its length
            row[:] = normalised(bank.scattered(image), self.group_size)
        return features

    def _checked(self, X, reset):
        if self.n_orientations % self.group_size:
            raise ValueError(
                f"group_size={self.group_size!r} does not divide n_orientations={self.n_orientations!r}: take a divisor"
            )
        bank = filter_bank(tuple(self.image_shape), self.n_orientations, self.scales, tuple(self.windows))
        X = validate_data(self, X, dtype=np.float32, order="C", reset=reset)
        if X.shape[1] != math.prod(bank.image_shape):
            raise ValueError(
                f"image_shape={self.image_shape!r} does not fit X, which has {X.shape[1]} columns: change it"
            )
        return X, bank

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def __dpsk_row_by_row__(self):
        """Promise that nothing is learned from rows, and that each becomes a function of itself."""
        return True


def normalised(orders, size):
    """Return the coefficients of one image as a row, with mean 0 and variance 1 in each group (Wu & He 2018)."""
    groups = [orders[0].reshape(1, -1), *(channels.reshape(len(channels) // size, -1) for channels in orders[1:])]
    return np.concatenate([standard(values).ravel() for values in groups])


def standard(values):
    values = values - values.mean(axis=1, keepdims=True)
    return values / np.sqrt((values * values).mean(axis=1, keepdims=True) + FAINT)


@dataclass(frozen=True)
class FilterBank:
    """Wavelets and windows for images of one shape.

    ``wavelets[r, j]`` are the transforms of the wavelets of scale j on the grid of every 2**r-th pixel, real, each
    number twice: for the real and for the imaginary part. ``averages[k, r]`` are the matrices that average what was
    convolved at most k times, down and across. ``padding`` are the pixels of an image that is reflected at its edges.
    """

    image_shape: Shape
    scales: int
    width: int
    padding: np.ndarray
    wavelets: dict[tuple[int, int], np.ndarray]
    averages: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]

    def scattered(self, image):
        """Return the coefficients of one image: arrays of channels x windows, by how often it was convolved.

        Those of one convolution are divided by their mean over orientations, those of two by the one of which they are
        the details (Andén & Mallat 2014).
        """
        signal = image[self.padding]
        spectrum = fft.fft2(signal)[None]
        first = [self._moduli(spectrum, 0, j) for j in range(self.scales)]
        zeroth = self._averaged(signal[None], 1, 0)
        once, twice = [self._averaged(moduli, 1, j) for j, moduli in enumerate(first)], []
        for j in range(self.scales - 1):
            spectra, parents = fft.fft2(first[j]), self._averaged(first[j], 2, j)
            for larger in range(j + 1, self.scales):
                channels = self._averaged(self._moduli(spectra, j, larger), 2, larger)
                by_parent = channels.reshape(len(parents), -1, *channels.shape[1:])
                twice.append((by_parent / (parents[:, None] + CONTRAST)).reshape(channels.shape))
        once = [channels / (channels.mean(axis=0) + CONTRAST) for channels in once]
        return [zeroth, np.concatenate(once), *([np.concatenate(twice)] if twice else [])]

    def _moduli(self, spectra, r, j):
        """Return the moduli of convolutions with the wavelets of scale j, on the grid of every 2**j-th pixel."""
        products = folded(spectra.view(np.float32)[:, None], self.wavelets[r, j], 2 ** (j - r))
        parts = fft.ifft2(products.view(np.complex64), overwrite_x=True).view(np.float32)
        parts *= parts
        moduli = np.sqrt(parts[..., ::2] + parts[..., 1::2])
        return moduli.reshape(-1, *moduli.shape[2:])

    def _averaged(self, signals, times, r):
        down, across = self.averages[times, r]
        # loops of NumPy's own: some libraries for matrix products round by where an array lies in memory
        return np.einsum("kwi,vi->kvw", np.einsum("kij,wj->kwi", signals, across), down)


def folded(spectra, wavelets, times):
    """Return the spectrum of every ``times``-th pixel of convolutions: parts of the products, added up."""
    height, width = wavelets.shape[-2] // times, wavelets.shape[-1] // times
    total = None
    for i in range(0, wavelets.shape[-2], height):
        for k in range(0, wavelets.shape[-1], width):
            part = spectra[..., i : i + height, k : k + width] * wavelets[..., i : i + height, k : k + width]
            total = part if total is None else np.add(total, part, out=total)
    return total


@lru_cache(maxsize=8)
def filter_bank(image_shape: Shape, n_orientations: int, scales: int, windows: Shape) -> FilterBank:
    step = 2**scales
    padded = tuple(step * -(-(n + step) // step) for n in image_shape)
    before = tuple((p - n) // 2 for p, n in zip(padded, image_shape, strict=True))
    around = [(b, p - n - b) for b, p, n in zip(before, padded, image_shape, strict=True)]
    padding = np.pad(np.arange(math.prod(image_shape)).reshape(image_shape), around, "reflect")
    wavelets, averages = {}, {}
    for j in range(scales):
        whole = np.array([fft.fft2(morlet(padded, j, k, n_orientations)).real for k in range(n_orientations)])
        for r in range(j + 1):
            filters = whole.reshape(-1, 2**r, padded[0] // 2**r, 2**r, padded[1] // 2**r).sum(axis=(1, 3))
            wavelets[r, j] = np.repeat(filters / 4 ** (j - r), 2, axis=-1).astype(np.float32)
        for k, count in enumerate(windows, 1):
            sides = zip(image_shape, padded, before, strict=True)
            averages[k, j] = tuple(window_weights(*side, count, j) for side in sides)
    twice = n_orientations**2 * (scales * (scales - 1) // 2)
    width = (1 + n_orientations * scales) * windows[0] ** 2 + twice * windows[1] ** 2
    return FilterBank(image_shape, scales, width, padding, wavelets, averages)


def morlet(shape, j, k, n_orientations):
    """Return the k-th Morlet wavelet of scale j around pixel 0 of a periodic image, with the constants of Kymatio."""
    sigma, frequency, slant = 0.8 * 2**j, 0.75 * math.pi / 2**j, 4 / n_orientations
    angle = math.pi * k / n_orientations
    gabor, gauss = np.zeros(shape, complex), np.zeros(shape)
    for i in range(-2, 3):
        for m in range(-2, 3):
            y, x = np.mgrid[: shape[0], : shape[1]] + np.array([i * shape[0], m * shape[1]])[:, None, None]
            along, across = math.cos(angle) * x + math.sin(angle) * y, math.cos(angle) * y - math.sin(angle) * x
            envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
            gauss += envelope
            gabor += envelope * np.exp(1j * frequency * along)
    return (gabor - gabor.sum() / gauss.sum() * gauss) * slant / (2 * math.pi * sigma**2)


def window_weights(n, padded, before, count, r):
    """Return the weights of every 2**r-th pixel of a padded line in ``count`` windows of the n pixels of the line."""
    centres = before - 0.5 + n / count * (np.arange(count) + 0.5)
    away = (np.arange(0, padded, 2**r) - centres[:, None]) / (0.4 * n / count)
    weights = np.exp(-(away**2) / 2)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
