"""Terms: a fit never counts for less than it guarantees, and what has no amount is refused."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsk.privacy import ZCDP, Budget, GaussianDP, PureCost, PureDP, RenyiDP, conversions
from dpsk.privacy.durable.terms import CURRENCIES, Amount, Terms, decimal, float_below

check = settings(derandomize=True, deadline=None, max_examples=200)


def terms(currency="basic", epsilon=2.0, delta=1e-5, **others):
    given = {"adjacency": None, "disjoint": None, "allow_nonprivate": None, **others}
    return Terms.fixed(epsilon=epsilon, delta=delta, currency=currency, **given)


def budget(currency, epsilon=0.5):
    return Budget.of(epsilon, 0.0 if currency == PureDP() else 1e-6, currency=currency)


# ------------------------------------------------------------------------------------------------- exact numbers


def test_a_float_counts_as_the_decimal_that_was_typed():
    assert decimal(0.1) == Fraction(1, 10)
    assert sum([decimal(0.1)] * 10) == 1
    assert decimal(1e-6) == Fraction(1, 10**6)


@given(st.floats(1e-300, 1e300))
@check
def test_the_decimal_is_the_float_up_to_its_last_bit(value):
    assert abs(decimal(value) - Fraction(value)) <= Fraction(value) / 2**52


@given(st.fractions(0, 1000, max_denominator=10**30))
@check
def test_a_float_below_counts_as_no_more_and_the_next_one_as_more(value):
    below = float_below(value)
    assert decimal(below) <= value < decimal(math.nextafter(below, math.inf))


def test_amounts_are_compared_in_both_parts():
    limit = Amount(Fraction(1), Fraction(1, 10))
    assert limit.fits_into(limit)
    assert not Amount(Fraction(2), Fraction(0)).fits_into(limit)
    assert not Amount(Fraction(0), Fraction(2, 10)).fits_into(limit)


# ------------------------------------------------------------------------------------------------- what fits count as


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), RenyiDP(40.0), PureDP()], ids=lambda c: c.name)
def test_under_basic_every_fit_counts_as_its_guarantee(currency):
    asked = budget(currency)
    assert terms().price(asked) == Amount(Fraction(1, 2), decimal(asked.delta))
    assert terms().settled(asked, asked.limit / 2, 0.0) == terms().price(asked), "basic never settles"


def test_under_rho_what_has_a_rho_counts_as_it():
    by_rho = terms("rho")
    zcdp, gaussian, pure = budget(ZCDP()), budget(GaussianDP()), budget(PureDP())
    assert by_rho.price(zcdp).main == decimal(zcdp.limit)
    assert by_rho.price(gaussian).main == decimal(gaussian.limit / 2)
    assert by_rho.price(pure).main == decimal(conversions.pure_rho(0.5))
    assert {by_rho.price(b).delta for b in (zcdp, gaussian, pure)} == {0}


def test_under_mu_squared_what_has_a_mu_counts_as_it():
    by_mu = terms("mu**2")
    gaussian, pure = budget(GaussianDP()), budget(PureDP())
    assert by_mu.price(gaussian).main == decimal(gaussian.limit)
    assert by_mu.price(pure).main == decimal(PureCost(0.5).mu ** 2)


@pytest.mark.parametrize(("currency", "fit"), [("rho", RenyiDP(40.0)), ("mu**2", RenyiDP(40.0)), ("mu**2", ZCDP())])
def test_what_has_no_amount_is_refused_with_a_remedy(currency, fit):
    with pytest.raises(ValueError, match=r"has no .*currency='basic'") as caught:
        terms(currency).price(budget(fit))
    assert fit.name in str(caught.value)


@pytest.mark.parametrize("currency", [ZCDP(), GaussianDP(), PureDP()], ids=lambda c: c.name)
@pytest.mark.parametrize("kept_in", ["rho", "mu**2"])
def test_the_amount_guarantees_what_the_fit_guarantees(currency, kept_in):
    """The amount, turned back into delta by the ledger's currency, is never better than what the fit was bought for."""
    if (currency, kept_in) == (ZCDP(), "mu**2"):
        return
    asked = budget(currency)
    amount = float(terms(kept_in).price(asked).main)
    for epsilon in (0.1, 0.3, 0.5, 1.0):
        promised = CURRENCIES[kept_in].delta(amount, epsilon)
        assert promised >= currency.delta(asked.limit, epsilon) * (1 - 1e-9) or currency == PureDP()
    if currency == PureDP():  # at no epsilon below can a pure mechanism be worse than its amount says
        assert all(CURRENCIES[kept_in].delta(amount, e) >= conversions.pure_delta(e, 0.5) for e in (0.0, 0.2, 0.4))


def test_only_a_fit_in_the_same_currency_settles():
    zcdp, gaussian, pure = budget(ZCDP()), budget(GaussianDP()), budget(PureDP())
    part = zcdp.limit / 3
    assert terms("rho").settled(zcdp, part, 0.0) == Amount(decimal(part), Fraction(0))
    assert terms("mu**2").settled(gaussian, gaussian.limit / 3, 0.0).main == decimal(gaussian.limit / 3)
    for kept_in, other in (("rho", gaussian), ("rho", pure), ("mu**2", pure), ("basic", zcdp), ("basic", gaussian)):
        assert terms(kept_in).settled(other, other.limit / 3, 0.0) == terms(kept_in).price(other)
    assert terms("rho").settled(zcdp, math.inf, 0.0) == terms("rho").price(zcdp)
    assert terms("rho").settled(zcdp, 2 * zcdp.limit, 0.0) == terms("rho").price(zcdp)


def test_the_limit_is_what_the_currency_buys():
    assert terms().limit == Amount(Fraction(2), Fraction(1, 10**5))
    assert terms("rho").limit.main == decimal(conversions.zcdp_rho(2.0, 1e-5))
    assert terms("mu**2").limit.main == decimal(GaussianDP().limit(2.0, 1e-5))
    assert terms("rho").as_dict(terms("rho").limit) == {"rho": conversions.zcdp_rho(2.0, 1e-5)}


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": None}, "delta is missing"),
        ({"epsilon": 0}, r"epsilon=0\.0"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"epsilon": True}, "epsilon=True"),
        ({"delta": 1}, r"delta=1\.0"),
        ({"delta": -1e-9}, "delta=-1e-09"),
        ({"currency": "dollars"}, r"currency='dollars' must be one of 'basic', 'rho', 'mu\*\*2'"),
        ({"currency": "rho", "delta": 0}, "delta=0"),
        ({"adjacency": "add"}, "adjacency='add'"),
        ({"disjoint": "hospital"}, "disjoint='hospital'"),
        ({"disjoint": ("a",)}, "two or more different names"),
        ({"disjoint": ("a", "a")}, "two or more different names"),
        ({"disjoint": ("a", 1)}, "list of names"),
        ({"disjoint": ("a", " ")}, "list of names"),
        ({"allow_nonprivate": "yes"}, "allow_nonprivate='yes'"),
    ],
)
def test_bad_parameters_are_refused_and_named(bad, message):
    with pytest.raises(ValueError, match=message):
        terms(**bad)


def test_parameters_that_disagree_are_named_with_what_was_fixed():
    held = terms(disjoint=("a", "b"))
    held.require("x.db", epsilon=2, delta=1e-5, currency="basic", disjoint=("b", "a"), allow_nonprivate=None)
    for name, value in {"epsilon": 3.0, "delta": 1e-6, "currency": "rho", "allow_nonprivate": True}.items():
        with pytest.raises(ValueError, match=rf"{name}=.*'x\.db'.*{name}="):
            held.require("x.db", **{name: value})
    with pytest.raises(ValueError, match="disjoint="):
        held.require("x.db", disjoint=("a", "c"))


def test_fits_that_would_void_the_promise_are_refused():
    with pytest.raises(ValueError, match=r"adjacency='replace'.*'zero-out'.*keep another ledger"):
        terms().require_fit("fit", "replace", True)
    with pytest.raises(ValueError, match=r"would not be private.*allow_nonprivate=True"):
        terms().require_fit("fit", "zero-out", False)
    terms(adjacency="replace", allow_nonprivate=True).require_fit("fit", "replace", False)
