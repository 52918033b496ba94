"""Durable ledgers with a reserve of delta for discoveries: sums of both parts, files of both layouts, refusals."""

import contextlib
import math
import sqlite3
from fractions import Fraction

import mpmath
import pytest
from sklearn.model_selection import GridSearchCV

from dpsk import BudgetExhausted, DPLogisticRegression, LedgerError, PrivacyLedger, search_cost
from dpsk.budget_command import show
from dpsk.privacy import Budget, Discovery, DiscoveryCost, GaussianCost, GaussianDP, PureDP
from dpsk.privacy.conversions import gaussian_delta, gaussian_epsilon
from dpsk.privacy.durable import ledger_file
from dpsk.privacy.durable.terms import CURRENCIES, Amount, Terms, amount_in, decimal

FACTS = Discovery(1e-7, 4, 0.01)
FIT = Budget.of(0.5, 1e-6, currency=GaussianDP(FACTS))
PLAIN = Budget.of(0.5, 1e-6, currency=GaussianDP())
LOOK, STEP = DiscoveryCost(0.03, FACTS), GaussianCost(0.02)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


def created(path, **options):
    return PrivacyLedger(path, **({"epsilon": 3.0, "delta": 1e-5, "currency": "mu**2", "reserve": 3e-7} | options))


def fit(ledger, budget=FIT, charges=(STEP, LOOK)):
    with ledger.fit(budget, label="fit", adjacency="zero-out", private=True) as filtered:
        for cost in charges:
            filtered.charge(cost, "release")


def test_discoveries_stay_within_the_reserve(path):
    ledger = created(path)
    for number in range(3):
        assert ledger.remaining()["delta"] == float(Fraction(3 - number, 10**7))
        fit(ledger)
    before = ledger.history(), ledger.remaining()
    assert before[1]["delta"] == 0
    with pytest.raises(
        BudgetExhausted, match=r"delta 1e-07, but .* delta 0 of .*reserve of delta.*used up.*Categories"
    ):
        fit(ledger)
    with pytest.raises(BudgetExhausted, match="used up"):
        ledger.require_room(FIT, label="fit", adjacency="zero-out", private=True)
    assert (ledger.history(), ledger.remaining()) == before
    fit(ledger, PLAIN, (STEP,))
    assert ledger.remaining()["delta"] == 0
    with pytest.raises(BudgetExhausted) as caught:
        fit(ledger, Budget.of(9.0, 1e-6, currency=GaussianDP()), (STEP,))
    assert "used up" not in str(caught.value), "mu**2 is what is missing"


@pytest.mark.parametrize(
    ("charges", "counted", "failure"),
    [((STEP, LOOK), 0.02**2 + 0.03**2, 1e-7), ((STEP, STEP), 2 * 0.02**2, 0.0), ((), 0.0, 0.0)],
)
def test_what_a_fit_with_a_discovery_counts_for_at_its_end(path, charges, counted, failure):
    ledger = created(path)
    with ledger.fit(FIT, label="fit", adjacency="zero-out", private=True) as filtered:
        (spend,) = ledger.history()
        assert spend.reserved == spend.counted == {"mu**2": FIT.limit, "delta": 1e-7}
        for cost in charges:
            filtered.charge(cost, "release")
    (spend,) = PrivacyLedger(path).history()
    assert spend.reserved == {"mu**2": FIT.limit, "delta": 1e-7}
    assert spend.counted == {"mu**2": pytest.approx(counted, rel=1e-12), "delta": failure}
    assert spend.state == ("closed" if charges else "returned")
    assert ledger.left().delta == decimal(3e-7) - decimal(failure)


def test_a_fit_that_died_keeps_all_that_it_set_aside(path):
    ledger = created(path)
    ledger.reserve(FIT, label="fit", adjacency="zero-out", private=True)
    assert ledger.left().delta == decimal(3e-7) - decimal(1e-7)
    assert ledger.left().main == ledger.terms().limit.main - decimal(FIT.limit)


@pytest.mark.parametrize("reserve", [1e-9, 1e-6, 9.9e-6])
def test_the_limit_beside_a_reserve_keeps_the_promise(reserve):
    terms = Terms.fixed(
        epsilon=3.0, delta=1e-5, currency="mu**2", adjacency=None, disjoint=None, allow_nonprivate=None, reserve=reserve
    )
    mp = mpmath.MPContext()
    mp.dps = 40
    mu = mp.sqrt(mp.mpf(terms.limit.main.numerator) / terms.limit.main.denominator)
    hidden = mp.ncdf(mu / 2 - 3 / mu) - mp.exp(3) * mp.ncdf(-mu / 2 - 3 / mu)
    reserved = mp.mpf(terms.limit.delta.numerator) / terms.limit.delta.denominator
    assert mp.mpf(1e-5) * (1 - mp.mpf(10) ** -8) < reserved + (1 - reserved) * hidden <= mp.mpf(1e-5)
    assert terms.limit.main < decimal(CURRENCIES["mu**2"].limit(3.0, 1e-5))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"reserve": 1e-5}, r"reserve=1e-05 must lie between 0 and delta=1e-05"),
        ({"reserve": -1e-9}, "reserve=-1e-09"),
        ({"reserve": math.nan}, "reserve=nan"),
        ({"reserve": "1"}, "reserve='1'"),
        ({"reserve": True}, "reserve=True"),
        ({"currency": "rho"}, r"reserve=3e-07 is for a ledger with currency='mu\*\*2'.*'rho' takes none"),
        ({"currency": "basic"}, r"reserve=3e-07.*'basic' takes discoveries as they are"),
    ],
)
def test_a_reserve_that_cannot_be_is_refused(path, bad, message):
    with pytest.raises(ValueError, match=message):
        created(path, **bad)


def test_ledgers_without_a_reserve_say_what_to_do(path, tmp_path):
    for reserve in (None, 1e-8):
        ledger = created(path + str(reserve), reserve=reserve)
        with pytest.raises(
            ValueError, match=r"takes 1e-07 of delta.*create a ledger with reserve=.*'basic'.*Categories"
        ):
            fit(ledger)
        assert ledger.history() == []
    rho = PrivacyLedger(tmp_path / "rho.db", epsilon=3.0, delta=1e-5, currency="rho")
    with pytest.raises(ValueError, match=r"mu\*\*2 with a discovery of values has no rho: use .*'basic'"):
        fit(rho)
    basic = PrivacyLedger(tmp_path / "basic.db", epsilon=3.0, delta=1e-5)
    fit(basic)
    assert basic.remaining() == {"epsilon": 2.5, "delta": 9e-6}, "all of epsilon and delta, the failure included"


def test_a_reserve_is_fixed_and_shown(path):
    ledger = created(path)
    assert PrivacyLedger(path, reserve=3e-7).terms() == ledger.terms() == created(path).terms()
    assert ledger.terms().reserve == 3e-7
    for other in (2e-7, 0.0):
        with pytest.raises(ValueError, match=r"reserve=.*was created with reserve=3e-07"):
            PrivacyLedger(path, reserve=other)
    fit(ledger)
    shown = "\n".join(show(path))
    assert "currency='mu**2', reserve=3e-07; mu**2 " in shown
    assert "and delta 2e-07 left after 1 fit" in shown
    assert "counts mu**2 0.0013, delta 1e-07" in shown
    assert "Of delta, 3e-07 is for fits that discover values" in ledger.statement()
    assert "discover" not in PrivacyLedger(path + "2", epsilon=1.0, delta=1e-5, currency="mu**2").statement()


def test_files_without_a_reserve_are_those_of_before(path):
    """They have the layout that earlier versions read; with a reserve it is one that these refuse."""
    old = PrivacyLedger(path, epsilon=3.0, delta=1e-5, currency="mu**2")
    created(path + "2")
    for name, version in ((path, 1), (path + "2", 2)):
        with contextlib.closing(sqlite3.connect(name)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (version,)
            columns = [row[1] for table in ("terms", "fits") for row in db.execute(f"PRAGMA table_info({table})")]
            assert ("reserve" in columns, "reserved_delta" in columns) == (version == 2, version == 2)
    assert ledger_file.VERSION == 3
    fit(old, PLAIN, (STEP,))
    (spend,) = old.history()
    assert spend.counted == {"mu**2": pytest.approx(0.02**2, rel=1e-12)}
    assert old.terms().reserve == 0
    assert old.remaining().keys() == {"mu**2"}


def test_an_edited_reserve_is_noticed(path):
    ledger = created(path)
    fit(ledger)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE accounts SET delta = '0'")
        db.commit()
    with pytest.raises(LedgerError, match="damaged"):
        fit(ledger)


def test_many_fits_in_disjoint_data_sets_have_a_reserve_each(path):
    ledger = created(path, disjoint=["a", "b"])
    for _ in range(3):
        fit(ledger.on("a"))
    with pytest.raises(BudgetExhausted, match="used up"):
        fit(ledger)
    fit(ledger.on("b"))
    assert ledger.on("b").left().delta == decimal(3e-7) - decimal(1e-7)


def test_a_whole_budget_has_its_failure_beside_its_amount():
    assert amount_in(FIT, CURRENCIES["mu**2"]) == (FIT.limit, 1e-7)
    assert amount_in(PLAIN, CURRENCIES["mu**2"]) == (PLAIN.limit, 0.0)
    assert amount_in(FIT, CURRENCIES["rho"]) is None
    assert amount_in(PLAIN, CURRENCIES["rho"]) == (PLAIN.limit / 2, 0.0)
    assert amount_in(Budget.of(0.5, 0.0, currency=PureDP()), CURRENCIES["mu**2"])[1] == 0.0


class Discovering(DPLogisticRegression):
    """Keeps its budget beside a discovery."""

    def _plan(self, facts):
        plan = super()._plan(facts)
        facts = Discovery(self.delta / 10, 4, 0.01)
        return type(plan)(
            plan.solver, plan.objective, plan.encoding, Budget.of(self.epsilon, self.delta, currency=GaussianDP(facts))
        )


def test_a_search_paid_fit_by_fit_adds_up_failures(path):
    """Three candidates on two folds of which one sees a row, and a refit: seven fits, of which seven are reserved."""
    search = GridSearchCV(Discovering(epsilon=0.5, delta=1e-6, solver="gradient-descent"), {"alpha": [1, 2, 3]}, cv=2)
    cost = search_cost(search, delta=1e-5, ledger=created(path, reserve=1e-6), n_rows=1000, n_features=5, n_classes=2)
    assert cost.fits == 7
    limit = FIT.limit
    expected = gaussian_epsilon(1e-5, math.sqrt(7 * limit), 7e-7)
    assert cost.epsilon == pytest.approx(expected, rel=1e-9)
    assert cost.composition == "mu**2"
    assert cost.epsilon > gaussian_epsilon(1e-5, math.sqrt(7 * limit)) * (1 + 1e-4), "without the failures"
    assert cost.needs == {"mu**2": pytest.approx(7 * limit, rel=1e-12), "delta": 7e-7}
    assert gaussian_delta(cost.epsilon, math.sqrt(7 * limit), 7e-7) <= 1e-5
    small = search_cost(search, delta=6e-7, n_rows=1000, n_features=5, n_classes=2)
    assert small.epsilon == math.inf, "the failures alone are more than this delta"


def test_amounts_of_both_parts_are_compared():
    limit = Amount(Fraction(1), decimal(3e-7))
    assert Amount(Fraction(1), 3 * decimal(1e-7)).fits_into(limit)
    assert not Amount(Fraction(0), 4 * decimal(1e-7)).fits_into(limit)
