"""How many fits a budget holds in each currency, and the advice that follows when a ledger is made."""

import math

from .terms import CURRENCIES, Terms, decimal, float_below

_STEPS = (5, 2, 1)


def epsilon_of_each(currency: str, epsilon: float, delta: float, fits: int) -> tuple[float, float]:
    """Return the largest epsilon and delta that each of so many equal fits may have in a ledger of this currency.

    Under "basic" the fits share delta as well. In the other currencies each fit may use the delta of the ledger.
    """
    kept_in = CURRENCIES[currency]
    if kept_in is None:
        return float_below(decimal(epsilon) / fits), float_below(decimal(delta) / fits)
    part = float_below(decimal(kept_in.limit(epsilon, delta)) / fits)
    each = kept_in.epsilon(part, delta)
    while decimal(kept_in.limit(each, delta)) > decimal(part):  # two roundings that meet
        each = math.nextafter(each, 0)
    return each, delta


def fits_of_each(currency: str, epsilon: float, delta: float, each: float, each_delta: float) -> int:
    """Return how many fits with this epsilon and delta a ledger kept in this currency takes."""
    kept_in = CURRENCIES[currency]
    if kept_in is None:
        shares = [decimal(epsilon) / decimal(each)]
        if each_delta > 0:
            shares.append(decimal(delta) / decimal(each_delta))
        return math.floor(min(shares))
    return math.floor(decimal(kept_in.limit(epsilon, delta)) / decimal(kept_in.limit(each, each_delta)))


def advice(terms: Terms) -> str:
    """Return what somebody should know who did not choose a currency; nothing where there is no choice."""
    if terms.delta == 0:
        return ""
    each, each_delta = _usual_fit(terms)
    try:
        basic, squared = (
            fits_of_each(currency, terms.epsilon, terms.delta, each, each_delta) for currency in ("basic", "mu**2")
        )
    except (ArithmeticError, ValueError):  # a budget beyond all that is used
        return ""
    return (
        f"This ledger is kept in 'basic', which holds {basic} fits of epsilon {each:g} and delta {each_delta:g}. Kept "
        f"in 'mu**2', it would hold {squared} such fits of DPLogisticRegression or DPLinearSVC by gradient descent. "
        "'basic' takes every kind of fit; 'mu**2' refuses random batches and objective perturbation, and needs "
        "reserve=... for fits that discover values. The currency cannot be changed later. Name one to make this choice "
        "yourself: currency='basic' also silences this advice"
    )


def _usual_fit(terms: Terms) -> tuple[float, float]:
    """Return a round epsilon, at most a quarter of that of the ledger, and a tenth of its delta."""
    power = 10.0 ** math.floor(math.log10(terms.epsilon / 4))
    each = next((step * power for step in _STEPS if 4 * step * power <= terms.epsilon), power)
    return float(f"{each:.3g}"), float_below(decimal(terms.delta) / 10)
