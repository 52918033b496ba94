"""A small solver for tests, and the example of docs/extending.md: gradient descent with equal shares of the budget."""

from dataclasses import dataclass

from dpsk.solvers.api import Gaussian, Solver, clip, integer, number, stable_step


@dataclass(frozen=True)
class NoisyDescent(Solver):
    """Plain noisy gradient descent.

    Parameters
    ----------
    steps : int
        Number of gradients.
    step_size : float
        Length of a step, relative to the mean gradient.
    gradient_clip : float
        Bound on one row's gradient norm. Larger ones are clipped.
    """

    steps: int = integer(100)
    step_size: float = number(2.0, open_low=True)
    gradient_clip: float = clip(2.0)

    def iterates(self, data, objective):
        w = objective.start()
        mechanism = Gaussian.priced(data.share(self.steps), data.currency)
        step = stable_step(self.step_size, objective.penalty)
        for _ in range(self.steps):
            noisy = data.release(data.measure(objective.gradient(w, clip=self.gradient_clip)), mechanism)
            w = w - step * (noisy / data.n_rows + objective.penalty.gradient(w))
            yield w
