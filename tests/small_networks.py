"""Networks of few units and steps, for tests of what every estimator keeps: a fit takes some hundredths of a second."""

from dataclasses import replace

from dpsk import DPConvolutionalClassifier, DPMLPClassifier


class SmallPerceptron(DPMLPClassifier):
    """A perceptron with one small hidden layer."""

    hidden_layer_sizes: object = (8,)
    steps: int | None = 20


def shape_of(n_columns):
    """Return the shape of an image of so many pixels, as square as can be."""
    height = max(h for h in range(1, n_columns + 1) if n_columns % h == 0 and h * h <= n_columns)
    return height, n_columns // height


class SmallConvolutional(DPConvolutionalClassifier):
    """A small convolutional network for tables with any number of columns."""

    channels: object = (3,)
    kernel_size: int = 2
    pool_size: int = 1
    hidden_layer_sizes: object = (8,)
    standardize: str | None = "private"
    steps: int | None = 20

    def _network_for(self):
        layers = super()._network_for()

        def network(n_inputs, n_outputs):
            shape = shape_of(n_inputs)
            size = min(layers.kernel_size, *shape)
            return replace(layers, image_shape=shape, kernel_size=size)(n_inputs, n_outputs)

        return network
