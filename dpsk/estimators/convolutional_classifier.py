"""Convolutional networks as a scikit-learn classifier of images."""

from typing import Any

from ..networks.images import ConvolutionalLayers, require_shape
from ..requirements import checked, integer
from .network_classifier import NetworkClassifier
from .network_rules import require_sizes, sizes_of


class DPConvolutionalClassifier(NetworkClassifier):
    """Differentially private convolutional network for images, for two classes or more.

    Behind each convolution the largest value of every window is kept (max pooling) and activated; dense layers follow.
    Gradients of rows are clipped over all layers together, and their sums get noise. What is left at None follows from
    public facts.

    A row is an image: its pixels line by line, the channels of a pixel side by side. Pixels have public bounds: give
    ``bounds=(0, 255)`` or ``(0, 1)``. Nothing has to be found then, so ``standardize`` is None here.

    Parameters
    ----------
    image_shape : tuple of int or None
        ``(height, width)`` or ``(height, width, channels)`` of an image. None: square images of one channel.
    channels : tuple of int
        The number of channels of each convolution.
    kernel_size : int
        The height and width of the windows of convolutions, which lie inside of the image.
    pool_size : int
        The height and width of the windows of which the largest value is kept behind each convolution; 1 keeps all.
    hidden_layer_sizes : tuple of int
        The number of units of each dense layer behind the convolutions; none for ``()``.
    standardize : {"private", None}
        None fits pixels as they are, in units of ``bounds``. "private" spends a part of the budget on means and
        standard deviations of the columns (and, without ``bounds``, on their ranges first).

    References
    ----------
    Abadi et al. (2016), Deep learning with differential privacy. Chen & Lee (2020), Stochastic adaptive line search for
    differentially private optimization.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpsk import DPConvolutionalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> shape = {"channels": (4,), "kernel_size": 3, "hidden_layer_sizes": (16,)}
    >>> model = DPConvolutionalClassifier(epsilon=8.0, bounds=(0, 16), steps=5, **shape).fit(X, y)
    >>> [weights.shape for weights in model.coefs_]
    [(9, 4), (36, 16), (16, 10)]
    """

    image_shape: Any = checked(None, require_shape)
    channels: Any = checked((6, 16), require_sizes)
    kernel_size: int = integer(5)
    pool_size: int = integer(2)
    hidden_layer_sizes: Any = checked((32,), lambda name, value: require_sizes(name, value, fewest=0))
    standardize: str | None = None

    def _network_for(self) -> ConvolutionalLayers:
        layers = ConvolutionalLayers(
            None if self.image_shape is None else tuple(int(n) for n in self.image_shape),
            sizes_of(self.channels),
            int(self.kernel_size),
            int(self.pool_size),
            sizes_of(self.hidden_layer_sizes),
            self.activation,
        )
        layers.require()
        return layers
