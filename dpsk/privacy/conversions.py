"""Exact conversions and calibrations between (epsilon, delta), zCDP, Gaussian DP, Renyi DP and pure DP.

Proofs: docs/guarantees.md, 5.1 to 5.10.

Three kinds of functions, named ``<currency>_<result>``:

* ``..._delta(epsilon, parameter)`` is the smallest delta the theorem in its docstring proves;
* ``..._epsilon(delta, parameter)`` is the smallest epsilon with that delta;
* ``gaussian_mu(epsilon, delta)`` and ``zcdp_rho(epsilon, delta)`` return the largest parameter with that delta.

All are bounds in spite of floating point (:mod:`dpsk.privacy.rounding`). A delta is that of ``(1 + MARGIN) *
parameter`` at ``(1 - MARGIN) * epsilon``, rounded up. Inverses are moved until this delta is kept.
"""

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_expit, ndtr, ndtri_exp

from .rounding import LEAST, down, up

SMALLEST_DELTA = 1e-300
"""The smallest positive delta that may be asked for; what is stated goes down to a tenth of it."""
SMALLEST, LARGEST = 1e-100, 1e100
"""Between them an epsilon may be asked for with a positive delta."""

_SQRT_HALF = math.sqrt(0.5)
_HUGE = 1e75  # a parameter beyond which no finite epsilon is worth stating


# ---------------------------------------------------------------------------------------------- inverses


def largest_within(price_of: Callable[[float], float], price: float) -> float:
    """Return the largest ``x > 0`` (to about 1e-13 relative) with ``price_of(x) <= price``.

    ``price_of`` must be continuous and increasing from 0. The result never overshoots: the inequality holds
    exactly for the float returned.
    """
    if not (price > 0 and math.isfinite(price)):
        raise ValueError(f"price={price!r} must be a positive finite number")
    low = high = 1.0
    while price_of(high) <= price:
        low, high = high, 4 * high
        if high > 1e150:
            return low
    while price_of(low) > price:
        low, high = low / 4, low
        if low < 1e-250:
            raise ValueError(f"price={price!r} is too small to buy anything")
    x = float(brentq(lambda t: price_of(t) / price - 1, low, high, xtol=1e-300, rtol=1e-14))
    step = x * 2.0**-52
    while price_of(x) > price:
        x -= step
        step *= 2
    return x


def smallest_epsilon(delta_of: Callable[[float], float], delta: float, upper: float) -> float:
    """Return the smallest ``epsilon >= 0`` with ``delta_of(epsilon) <= delta``, from the safe side."""
    if delta_of(0.0) <= delta:
        return 0.0
    while delta_of(upper) > delta:
        upper *= 2
        if upper > 1e300:
            return math.inf

    def gap(epsilon: float) -> float:
        return math.log(max(delta_of(epsilon), 5e-324)) - math.log(delta)

    return _safe_epsilon(float(brentq(gap, 0.0, upper, xtol=1e-300, rtol=1e-14)), delta_of, delta)


def _safe_epsilon(epsilon: float, delta_of: Callable[[float], float], delta: float) -> float:
    """Return ``epsilon``, or the next larger one that keeps ``delta_of(epsilon) <= delta`` in floating point."""
    low, step = epsilon, max(epsilon, 1e-300) * 2.0**-52
    while epsilon < math.inf and delta_of(epsilon) > delta:
        low, epsilon = epsilon, epsilon + step
        step *= 2
    while low < (middle := (low + epsilon) / 2) < epsilon:  # the last step may have been too long
        low, epsilon = (low, middle) if delta_of(middle) <= delta else (middle, epsilon)
    return epsilon


def _check(*, epsilon: float | None = None, delta: float | None = None, **parameters: float) -> None:
    if epsilon is not None and not epsilon >= 0:
        raise ValueError(f"epsilon={epsilon!r} must be a number >= 0")
    if delta is not None and not 0 < delta < 1:
        raise ValueError(f"delta={delta!r} must lie strictly between 0 and 1 for this conversion")
    if delta is not None:
        require_stateable(1.0 if epsilon is None else epsilon, delta)
    for name, value in parameters.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name}={value!r} must be a finite number >= 0")


def require_stateable(epsilon: float, delta: float) -> None:
    """Raise ValueError where squares of the strengths for this promise would not be floats with all digits."""
    if not (SMALLEST <= epsilon <= LARGEST or epsilon == math.inf):
        raise ValueError(
            f"epsilon={epsilon!r} must lie between {SMALLEST:g} and {LARGEST:g} where delta is positive: choose one "
            "there, or epsilon=inf for no privacy"
        )
    if not delta >= SMALLEST_DELTA:
        raise ValueError(f"delta={delta!r} is finer than can be computed: use at least {SMALLEST_DELTA:g}")


# ------------------------------------------------------------------------------------------- Gaussian DP


def gaussian_delta(epsilon: float, mu: float, failure: float = 0.0) -> float:
    """Return delta(epsilon) of a mu-GDP mechanism, for instance the Gaussian mechanism with sigma = Delta/mu.

    A ``failure`` is the probability with which the mechanism shows everything instead (docs/guarantees.md, 2.10).

    Theorem (Balle & Wang 2018; Dong, Roth & Su 2022): exactly
    ``Phi(-epsilon/mu + mu/2) - exp(epsilon) * Phi(-epsilon/mu - mu/2)``. The common factor ``exp(-a**2/2)`` is taken
    out, so that the difference keeps its digits; for a small mu it is taken by a series.
    """
    _check(epsilon=epsilon, mu=mu)
    hidden = 0.0 if mu == 0 or epsilon == math.inf else min(1.0, up(_gaussian_delta(down(epsilon), up(mu))))
    return min(1.0, up(failure + (1 - failure) * hidden)) if failure else hidden


def _gaussian_delta(epsilon: float, mu: float) -> float:
    a = -epsilon / mu + mu / 2
    b = -epsilon / mu - mu / 2
    if a < -40:
        return 0.0  # at most Phi(a), which is below LEAST
    if mu < 0.05:
        return 0.5 * math.exp(-a * a / 2) * _erfcx_drop(epsilon / mu * _SQRT_HALF, mu * _SQRT_HALF)
    if a > 0:
        tail = 0.5 * math.exp(-a * a / 2) * float(erfcx(-b * _SQRT_HALF))
        return float(ndtr(a)) - tail
    return 0.5 * math.exp(-a * a / 2) * float(erfcx(-a * _SQRT_HALF) - erfcx(-b * _SQRT_HALF))


def _erfcx_drop(x: float, h: float) -> float:
    """Return ``erfcx(x - h/2) - erfcx(x + h/2)`` for a small h, by the odd derivatives at x < 30.

    They follow from erfcx' = 2x erfcx - 2/sqrt(pi) by differentiation. Later derivatives lose digits by cancellation,
    but their factors are so small that this does not matter.
    """
    at = [float(erfcx(x))]
    at.append(2 * x * at[0] - 2 / math.sqrt(math.pi))
    for n in range(1, 7):
        at.append(2 * x * at[n] + 2 * n * at[n - 1])
    return -h * (at[1] + h**2 / 24 * at[3] + h**4 / 1920 * at[5] + h**6 / 322560 * at[7])


def paper_mu(epsilon: float, delta: float) -> float:
    """Return the mu of the noise of Zhao et al. (2019), as Lowy & Razaviyayn (2021) use it.

    sigma is ``(c + sqrt(c**2 + epsilon)) / (sqrt(2) * epsilon)`` with ``c**2 = log(2 / (sqrt(16 delta + 1) - 1))``.
    It is sound and smaller than :func:`gaussian_mu`; kept to reproduce the paper's numbers.
    """
    _check(epsilon=epsilon, delta=delta)
    if epsilon == math.inf:
        return math.inf
    c2 = math.log(2 * (math.sqrt(16 * delta + 1) + 1) / (16 * delta))
    if not c2 >= 0:
        raise ValueError(f"delta={delta!r} is too large for this formula: it is for delta < 1/2")
    c2 += 2.0**-50  # the rounding of a logarithm near 0
    return down(math.sqrt(2) * epsilon / (math.sqrt(c2) + math.sqrt(c2 + epsilon)))


def gaussian_epsilon(delta: float, mu: float, failure: float = 0.0) -> float:
    """Return the smallest epsilon for which a mu-GDP mechanism, if it does not fail, is (epsilon, delta)-DP."""
    _check(delta=delta, mu=mu)
    if mu > _HUGE or gaussian_delta(math.inf, mu, failure) > delta:
        return math.inf
    return smallest_epsilon(lambda e: gaussian_delta(e, mu, failure), delta, max(mu, mu * mu, 1e-300))


def gaussian_square(epsilon: float, delta: float, failure: float = 0.0) -> float:
    """Return the largest mu**2 for which every mu-GDP mechanism, if it does not fail, is (epsilon, delta)-DP."""
    if gaussian_delta(epsilon, 0.0, failure) >= delta:
        raise ValueError(f"delta={delta!r} must be larger than the part of it that is for failures, {failure!r}")
    return largest_within(lambda square: gaussian_delta(epsilon, math.sqrt(square), failure), delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which every mu-GDP mechanism is (epsilon, delta)-DP."""
    _check(epsilon=epsilon, delta=delta)
    return largest_within(lambda mu: gaussian_delta(epsilon, mu), delta)


# -------------------------------------------------------------------------------------------------- zCDP


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return a delta for which every rho-zCDP mechanism is (epsilon, delta)-DP.

    Theorem (Canonne, Kamath & Steinke 2020): the minimum over orders a > 1 of
    ``exp((a-1)(a*rho - epsilon)) * (1 - 1/a)**(a-1) / a``. Its logarithm is convex in a with derivative
    ``(2a-1)*rho - epsilon + log(1 - 1/a)``, whose one root is searched in ``log(a-1)``.
    """
    _check(epsilon=epsilon, rho=rho)
    if rho == 0 or epsilon == math.inf:
        return 0.0
    return min(1.0, up(_zcdp_delta(down(epsilon), up(rho))))


def _zcdp_delta(epsilon: float, rho: float) -> float:
    epsilon = min(epsilon, 1e300)
    rho = max(rho, 1e-300 * (1 + epsilon))  # a larger rho is on the safe side, and the best order stays a float

    def slope(t: float) -> float:
        excess = math.exp(t)
        return (2 * excess + 1) * rho - epsilon + t - math.log1p(excess)

    low, high = -700.0, math.log(1.01 * (epsilon + 1) / (2 * rho) + 1)
    if slope(low) >= 0:
        return 1.0
    excess = math.exp(brentq(slope, low, high, xtol=1e-12, rtol=1e-12))
    return math.exp(min(0.0, _log_renyi_delta(excess, (1 + excess) * rho, epsilon)))


def _log_renyi_delta(excess: float, renyi: float, epsilon: float) -> float:
    """Return the logarithm of the Canonne-Kamath-Steinke bound at order ``1 + excess``."""
    # log(1 - 1/a) = log(excess / (1 + excess)), written so that neither a small nor a large order loses digits.
    log_ratio = -math.log1p(1 / excess)
    return excess * (renyi - epsilon) - math.log1p(excess) + excess * log_ratio


def zcdp_epsilon(delta: float, rho: float) -> float:
    """Return the smallest epsilon for which ``zcdp_delta(epsilon, rho) <= delta``."""
    _check(delta=delta, rho=rho)
    if rho > _HUGE:
        return math.inf
    upper = rho + 2 * math.sqrt(-rho * math.log(delta))
    return smallest_epsilon(lambda e: zcdp_delta(e, rho), delta, max(upper, 1e-300))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which ``zcdp_delta(epsilon, rho) <= delta``."""
    _check(epsilon=epsilon, delta=delta)
    return largest_within(lambda rho: zcdp_delta(epsilon, rho), delta)


def paper_rho(epsilon: float, delta: float) -> float:
    """Return the rho of Lee & Kifer (2018), ``(sqrt(epsilon + log(1/delta)) - sqrt(log(1/delta)))**2``.

    This inverts the closed bound ``epsilon = rho + 2*sqrt(rho*log(1/delta))`` of Bun & Steinke (2016). It is sound
    and smaller than :func:`zcdp_rho`; kept to reproduce the paper's numbers.
    """
    _check(epsilon=epsilon, delta=delta)
    if epsilon == math.inf:
        return math.inf
    log_inverse = -math.log(delta)
    return down((epsilon / (math.sqrt(epsilon + log_inverse) + math.sqrt(log_inverse))) ** 2)


# --------------------------------------------------------------------------------------------- Renyi DP


def _check_orders(orders: Sequence[float], values: Sequence[float]) -> None:
    if len(orders) == 0 or len(orders) != len(values):
        raise ValueError("orders and values must be two sequences of the same positive length")
    for order, value in zip(orders, values, strict=True):
        if not order > 1:
            raise ValueError(f"order={order!r} must be greater than 1")
        if order == math.inf:
            raise ValueError(f"order={order!r} must be finite: at infinity the divergence is the pure epsilon")
        if not value >= 0:
            raise ValueError(f"a Renyi divergence of {value!r} at order {order!r} must be a number >= 0")


def rdp_delta(orders: Sequence[float], values: Sequence[float], epsilon: float) -> float:
    """Return delta(epsilon) of a mechanism with Renyi divergence ``values[i]`` at ``orders[i]``.

    Theorem (Canonne, Kamath & Steinke 2020): the bound of :func:`zcdp_delta` with ``a*rho`` replaced by the
    divergence at a, at the best of the given orders. The curve must belong to one fixed mechanism: for one that was
    filled adaptively this is not sound.
    """
    _check(epsilon=epsilon)
    _check_orders(orders, values)
    epsilon = down(epsilon)
    if epsilon == math.inf:
        return 0.0 if min(values) < math.inf else 1.0
    logs = [_log_renyi_delta(a - 1, up(value), epsilon) for a, value in zip(orders, values, strict=True)]
    return min(1.0, up(math.exp(min(0.0, *logs))))


def rdp_epsilon(orders: Sequence[float], values: Sequence[float], delta: float) -> float:
    """Return the smallest epsilon for which ``rdp_delta(orders, values, epsilon) <= delta``."""
    _check(delta=delta)
    _check_orders(orders, values)
    at = (
        value - (math.log(delta) + math.log(a)) / (a - 1) + math.log1p(-1 / a)
        for a, value in zip(orders, values, strict=True)
    )
    return _safe_epsilon(max(0.0, min(at)), lambda epsilon: rdp_delta(orders, values, epsilon), delta)


# ------------------------------------------------------------------------- pure DP and bounded range


def pure_delta(epsilon: float, pure: float) -> float:
    """Return delta(epsilon) of a ``pure``-DP mechanism.

    Theorem (Kairouz, Oh & Viswanath 2015): that of randomised response,
    ``(exp(pure) - exp(epsilon)) / (1 + exp(pure))`` below ``pure`` and 0 from there on.
    """
    _check(epsilon=epsilon, pure=pure)
    if epsilon >= pure:
        return 0.0
    return min(1.0, up(-math.expm1(epsilon - pure) * math.exp(log_expit(pure))))


def pure_epsilon(delta: float, pure: float) -> float:
    """Return the smallest epsilon for which a ``pure``-DP mechanism is (epsilon, delta)-DP."""
    _check(pure=pure)
    if not 0 <= delta < 1:
        raise ValueError(f"delta={delta!r} must lie in [0, 1)")
    if delta < LEAST:
        return pure
    lost = delta * (1 + math.exp(-pure))
    epsilon = max(0.0, pure + math.log1p(-lost)) if lost < 1 else 0.0
    return _safe_epsilon(epsilon, lambda e: pure_delta(e, pure), delta)


def pure_rho(pure: float) -> float:
    """Return the zCDP cost ``pure * tanh(pure/2) <= pure**2/2`` of a ``pure``-DP mechanism.

    Bun & Steinke (2016) prove pure**2/2. Nothing less than this is enough: it is the limit at order 1.
    """
    _check(pure=pure)
    return up(pure * math.tanh(pure / 2)) if pure else 0.0


def pure_mu(pure: float) -> float:
    """Return the Gaussian-DP cost ``2 * Phi^-1(e^pure / (1 + e^pure))`` of a ``pure``-DP mechanism."""
    _check(pure=pure)
    if pure < 1:
        return up(2 * math.sqrt(2) * float(erfinv(math.tanh(pure / 2)))) if pure else 0.0
    return up(-2 * float(ndtri_exp(log_expit(-pure))))


def pure_rdp(order: float, pure: float) -> float:
    """Return the Renyi divergence of order ``order > 1`` of a ``pure``-DP mechanism.

    Tight: it is the divergence of randomised response,
    ``log((e^(a*eps) + e^((1-a)*eps)) / (1 + e^eps)) / (a - 1)``, here with ``e^(a*eps)`` taken out.
    """
    _check(pure=pure)
    if not order > 1:
        raise ValueError(f"order={order!r} must be greater than 1")
    if order == math.inf:
        return pure
    excess = order - 1
    x = excess * pure
    if x < 1:  # as 1 + something small, so that a -> 1 and pure -> 0 keep their digits
        half, rest = math.sinh(x / 2) / excess, math.tanh(pure / 2) * (math.sinh(x) / excess)
        moment = 2 * half * math.sinh(x / 2) + rest
        whole = math.log1p(excess * moment) / excess if excess * moment > 1e-30 else moment
    else:
        yes, no = math.exp(log_expit(pure)), math.exp(log_expit(-pure))
        whole = pure + math.log(yes + no * math.exp(-2 * x)) / excess
    return min(pure, up(whole)) if pure else 0.0


def bounded_range_rho(eta: float) -> float:
    """Return the zCDP cost ``eta**2 / 8`` of an eta-bounded-range mechanism, or that of pure DP if it is less.

    Theorem (Dong, Durfee & Rogers 2020; Cesar & Rogers 2021). It is eta-DP as well, the better bound for eta above 8.
    """
    _check(eta=eta)
    return min(up(eta * eta / 8), pure_rho(eta)) if eta else 0.0


def bounded_range_mu(eta: float) -> float:
    """Return the Gaussian-DP cost ``2 * Phi^-1(1 / (1 + exp(-eta/2)))`` of an eta-bounded-range mechanism."""
    return max(pure_mu(eta / 2), LEAST) if eta else 0.0
