"""The exponential mechanism, and localisation before it, with pure epsilon.

Lowy & Razaviyayn (2021), Algorithms 9 to 11, after Bassily, Smith & Thakurta (2014). Exact, in a few
dimensions.
"""

from dataclasses import dataclass, replace

from ..data import Facts
from ..data.private import PrivateData
from ..losses import Loss
from ..mechanisms import NormGamma
from ..minimizers import Minimizer, RegularizedSum, SampledWeights
from ..objectives import LinearObjective
from ..privacy import Currency, PureDP
from ..requirements import clip
from .precision import typical_norm
from .solver import Iterates, Solver

REACH = 10.0  # the margin that the ball reaches at the longest row
ROOM = 1.25  # the ball, in units of how far minimisers can be from 0
UNBOUNDED = 2.0**40  # a clip that nothing reaches, in units of the longest row


@dataclass(frozen=True)
class ExponentialSampling(Solver):
    """Weights drawn once, more likely where the regularised sum of losses is small.

    Parameters
    ----------
    localized : bool
        Whether half of the budget first finds, with noise, a small ball around the minimum to draw from.
    automatic : bool
        Whether the penalty is the smallest that keeps all minimisers within the radius, rather than the one given.
    radius : float or None
        That radius. None: where the margin of the longest row is 10.
    longest : float or None
        A public norm that rows are shortened to. None: a typical one, found by a noisy count.
    """

    localized: bool = False
    automatic: bool = True
    radius: float | None = clip(None)
    longest: float | None = clip(None)

    def require(self, loss: Loss, facts: Facts, currency: Currency) -> None:
        if not isinstance(currency, PureDP):
            raise ValueError(f"the exponential mechanism takes a budget in pure epsilon, not in {currency.name}")
        if facts.n_classes > 2:
            mechanism = "localization" if self.localized else "exponential"
            raise ValueError(
                f"mechanism={mechanism!r} is for two classes, but there are {facts.n_classes}: use mechanism='noise'"
            )

    def iterates(self, data: PrivateData, objective: LinearObjective) -> Iterates:
        loss, shape = objective.loss, objective.shape
        longest = typical_norm(data) if self.longest is None else self.longest
        n, n_units, p = data.n_rows, data.n_units, shape[0]
        clip = UNBOUNDED * longest
        alpha = objective.penalty.smoothness
        if self.automatic:
            at_zero = RegularizedSum(loss, n_units, p, clip, longest, n).at_zero / n_units
            alpha = at_zero / (self.radius or REACH / longest) ** 2
        minimum = Minimizer(loss, n_units, p, clip=clip, longest=longest, penalty=alpha * n)
        advice = "use mechanism='noise', fewer columns, or a larger alpha (a smaller radius)"
        if self.localized:
            half = data.remaining / 2
            noise = NormGamma(half)
            draw = SampledWeights.around(minimum, noise, half, data.adjacency)
            draw.require_hope(advice)
            noise.check(minimum.sensitivity(data.adjacency), shape)
            w = data.release(data.measure(minimum), noise)
            yield w
            draw = replace(draw, eta=data.remaining, centre=(*w.tolist(),))
        else:
            farthest = minimum.objective.farthest
            draw = SampledWeights(
                loss, n_units, p, longest, alpha * n, data.remaining, ROOM * farthest, farthest, data.adjacency
            )
            draw.require_hope(advice)
        yield data.draw(draw)
        return None
