"""Multilayer perceptrons as a scikit-learn classifier, for tables of numbers and for raw tables."""

from typing import Any

from ..data import Facts, Unknown, require_columns
from ..encodings import Encoding
from ..encodings.tabular import TabularEncoding, currency_for
from ..objectives import Perceptron
from ..requirements import checked
from .network_classifier import NetworkClassifier
from .network_rules import Schedule, require_sizes, sizes_of
from .plan import FIELD


class DPMLPClassifier(NetworkClassifier):
    """Differentially private multilayer perceptron, for two classes or more.

    Gradients of rows are clipped over all layers together, and their sums get noise. The parameters are named after
    those of scikit-learn's ``MLPClassifier`` where it has them. What is left at None follows from public facts. On
    tables try :class:`~dpsk.DPLogisticRegression` and :class:`~dpsk.DPTabularClassifier` first: they are many times
    faster, and a network is more accurate only where columns matter together.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        The number of units of each hidden layer.
    columns : None, "auto" or dict
        None: a table of numbers. Otherwise a raw table, as for :class:`~dpsk.DPTabularClassifier`: the kinds of its
        columns by name, :class:`~dpsk.Number`, :class:`~dpsk.Categories`, :class:`~dpsk.Text`, :class:`~dpsk.Date`, or
        None to leave a column out; "auto": what the type of the column says. A part of the budget finds where numbers
        lie and which categories there are. Where categories have to be found, batches hold all rows.

    Attributes
    ----------
    encoder_ : TabularEncoder
        The released map of the columns of a raw table to features, for which the first layer has its weights.

    References
    ----------
    Abadi et al. (2016), Deep learning with differential privacy. Chen & Lee (2020), Stochastic adaptive line search for
    differentially private optimization.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpsk import DPMLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPMLPClassifier(epsilon=8.0, hidden_layer_sizes=(16,), steps=5, bounds=(0, 16)).fit(X, y)
    >>> [weights.shape for weights in model.coefs_]
    [(64, 16), (16, 10)]
    """

    hidden_layer_sizes: Any = checked((100,), require_sizes)
    columns: Any = checked(None, require_columns)  # type: ignore[misc]

    def _network_for(self) -> Perceptron:
        return Perceptron(sizes_of(self.hidden_layer_sizes), self.activation)

    def _schedule(self, facts: Facts | Unknown) -> Schedule:
        def n_weights() -> int:
            n_inputs = facts.n_features * (1 if facts.schema is None else FIELD)
            return self._network_for()(n_inputs, facts.n_scores or 1).n_weights

        return Schedule.of(self, facts, n_weights)

    def _encoding(self) -> Encoding:
        return super()._encoding() if self.columns is None else TabularEncoding()

    def _of_all_rows(self, facts: Facts | Unknown) -> Any:
        if self.columns is None:
            return super()._of_all_rows(facts)
        return currency_for(facts, float(self.epsilon), float(self.delta), self.adjacency)

    def _require_together(self) -> None:
        super()._require_together()
        if self.columns is not None and self.standardize is None:
            raise ValueError(
                "standardize=None cannot be combined with columns: the features of a raw table are standardised with "
                "what is counted anyway. Leave standardize out"
            )
