"""A complete estimator outside the package, the example of docs/extending.md."""

from noisy_descent import NoisyDescent

from dpsk.encodings import LinearEncoding
from dpsk.estimators import LossNamed, NumericClassifier, Plan, Probabilities, l2_of, with_parameters_of
from dpsk.objectives import Linear
from dpsk.privacy import Budget, GaussianDP
from dpsk.requirements import require_stable_steps


class NoisyDescentClassifier(Probabilities, NumericClassifier):
    """Logistic regression by plain noisy gradient descent, for two classes or more."""

    steps: int = 100
    step_size: float = 2.0
    gradient_clip: float = 2.0

    _described_by = (NoisyDescent,)

    def _plan(self, facts):
        require_stable_steps("step_size", self.step_size, self.alpha)  # steps along the penalty must not grow
        return Plan(
            solver=with_parameters_of(self, NoisyDescent),
            objective=Linear(LossNamed("log_loss"), l2_of(self)),
            encoding=with_parameters_of(self, LinearEncoding),
            budget=Budget.of(self.epsilon, self.delta, currency=GaussianDP()),
        )
