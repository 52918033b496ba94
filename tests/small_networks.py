"""Networks of few units and steps, for tests of what every estimator keeps: a fit takes some hundredths of a second."""

from dataclasses import replace
from typing import Any

from dpsk import DPConvolutionalClassifier, DPMLPClassifier
from dpsk.estimators.network_rules import require_sizes
from dpsk.requirements import checked, integer


class SmallPerceptron(DPMLPClassifier):
    """A perceptron with one small hidden layer."""

    hidden_layer_sizes: Any = checked((8,), require_sizes)
    steps: int | None = integer(20)


def shape_of(n_columns):
    """Return the shape of an image of so many pixels, as square as can be."""
    height = max(h for h in range(1, n_columns + 1) if n_columns % h == 0 and h * h <= n_columns)
    return height, n_columns // height


class SmallConvolutional(DPConvolutionalClassifier):
    """A small convolutional network for tables with any number of columns."""

    channels: Any = checked((3,), require_sizes)
    kernel_size: int = integer(2)
    pool_size: int = integer(1)
    hidden_layer_sizes: Any = checked((8,), require_sizes)
    standardize: str | None = "private"
    steps: int | None = integer(20)

    def _network_for(self):
        layers = super()._network_for()

        def network(n_inputs, n_outputs):
            shape = shape_of(n_inputs)
            size = min(layers.kernel_size, *shape)
            return replace(layers, image_shape=shape, kernel_size=size)(n_inputs, n_outputs)

        return network
