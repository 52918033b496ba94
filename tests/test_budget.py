"""``python -m dpsk budget``: what is planned fits, and no more; a ledger is shown as it is."""

import subprocess
import sys

import pytest

from dpsk import BudgetExhausted, PrivacyLedger
from dpsk.__main__ import main
from dpsk.budget_command import epsilon_of_each, fits_of_each
from dpsk.privacy import Budget, GaussianCost
from dpsk.privacy.durable.terms import CURRENCIES

CASES = [(currency, fits) for currency in CURRENCIES for fits in (1, 3, 7, 20)]


def fit(ledger, budget):
    with ledger.fit(budget, label="fit", adjacency="zero-out", private=True) as filtered:
        filtered.charge(GaussianCost(1e-6), "draw")


def budget_in(currency, epsilon, delta):
    return Budget.of(epsilon, delta, currency=CURRENCIES[currency])


@pytest.mark.parametrize(("currency", "fits"), CASES)
def test_the_fits_that_were_planned_go_through_and_not_one_more(currency, fits, tmp_path):
    epsilon, delta = epsilon_of_each(currency, 2.0, 1e-5, fits)
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5, currency=currency)
    each = budget_in(currency, epsilon, delta)
    for _ in range(fits):
        ledger.reserve(each, label="fit", adjacency="zero-out", private=True)
    with pytest.raises(BudgetExhausted):
        fit(ledger, each)


@pytest.mark.parametrize(("currency", "fits"), CASES)
def test_a_little_more_than_planned_would_not_fit(currency, fits, tmp_path):
    epsilon, delta = epsilon_of_each(currency, 2.0, 1e-5, fits)
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=2.0, delta=1e-5, currency=currency)
    each = budget_in(currency, 1.0001 * epsilon, delta)
    for _ in range(fits - 1):
        ledger.reserve(each, label="fit", adjacency="zero-out", private=True)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(each, label="fit", adjacency="zero-out", private=True)


@pytest.mark.slow
@pytest.mark.parametrize("currency", CURRENCIES)
@pytest.mark.parametrize("each", [0.1, 0.3, 1.0])
def test_as_many_fits_as_counted_go_through(currency, each, tmp_path):
    fits = fits_of_each(currency, 1.0, 1e-4, each, 1e-6)
    ledger = PrivacyLedger(tmp_path / "budget.db", epsilon=1.0, delta=1e-4, currency=currency)
    for _ in range(fits):
        ledger.reserve(budget_in(currency, each, 1e-6), label="fit", adjacency="zero-out", private=True)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(budget_in(currency, each, 1e-6), label="fit", adjacency="zero-out", private=True)


def test_delta_may_be_what_ends_first():
    assert fits_of_each("basic", 100.0, 3e-6, 0.1, 1e-6) == 3
    assert fits_of_each("basic", 1.0, 1e-5, 0.1, 0.0) == 10


def test_plan_prints_every_currency_and_never_rounds_up(capsys):
    assert main(["budget", "plan", "--epsilon", "2", "--delta", "1e-5", "--fits", "7"]) == 0
    printed = capsys.readouterr().out
    assert "kept in basic  7 fits of epsilon 0.2857 and delta 1.428e-06" in printed
    for currency in ("rho", "mu**2"):
        (line,) = [line for line in printed.splitlines() if f"kept in {currency}" in line]
        shown = float(line.split("epsilon ")[1].split()[0])
        exact, _ = epsilon_of_each(currency, 2.0, 1e-5, 7)
        assert exact * 0.999 < shown <= exact
    assert main(["budget", "plan", "--epsilon", "1", "--delta", "1e-4", "--each", "0.1"]) == 0
    assert "kept in basic  10 fits of epsilon 0.1 and delta 1e-06" in capsys.readouterr().out
    assert main(["budget", "plan", "--epsilon", "1", "--delta", "0", "--fits", "4"]) == 0
    printed = capsys.readouterr().out
    assert "4 fits of epsilon 0.25 and delta 0" in printed
    assert "rho" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "-1", "--delta", "1e-5", "--fits", "2"], r"epsilon=-1\.0"),
        (["--epsilon", "1", "--delta", "2", "--fits", "2"], r"delta=2\.0"),
        (["--epsilon", "1", "--delta", "1e-5", "--fits", "0"], "--fits 0"),
        (["--epsilon", "1", "--delta", "1e-5", "--each", "0"], "--each 0"),
        (["--epsilon", "1", "--delta", "1e-5", "--each", "1", "--each-delta", "1"], "--each-delta 1"),
    ],
)
def test_bad_plans_are_refused_in_one_line(arguments, message, capsys):
    assert main(["budget", "plan", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert message.replace("\\", "") in printed.err


def test_show_prints_what_is_left_what_was_spent_and_the_statement(tmp_path, capsys):
    path = str(tmp_path / "budget.db")
    ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, disjoint=["A", "B"], allow_nonprivate=True)
    assert main(["budget", "show", path]) == 0
    assert "no fits yet" in capsys.readouterr().out
    fit(ledger.on("A"), Budget.of(0.5, 1e-6))
    ledger.on("B").reserve(Budget.of(0.25, 1e-6), label="crashed", adjacency="zero-out", private=True)
    ledger.reserve(None, label="exact", adjacency="zero-out", private=False)
    assert main(["budget", "show", path]) == 0
    printed = capsys.readouterr().out
    for part in (
        "left for A: epsilon 1.5 and delta 9e-06",
        "left for B: epsilon 1.75",
        "fit on A: epsilon 0.5, delta 1e-06; closed, counts epsilon 0.5, delta 1e-06",
        "crashed on B: epsilon 0.25, delta 1e-06; open",
        "exact: epsilon inf, delta 0; open, NOT PRIVATE, counts nothing",
        ledger.statement(),
    ):
        assert part in printed


def test_show_of_what_is_no_ledger_is_an_error_in_one_line(tmp_path, capsys):
    (tmp_path / "text.db").write_text("not a ledger" * 100)
    for name, message in (("none.db", "there is no ledger"), ("text.db", "not a ledger")):
        assert main(["budget", "show", str(tmp_path / name)]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert message in printed.err
        assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "none.db").exists()


@pytest.mark.slow
def test_it_runs_as_a_command(tmp_path):
    command = [sys.executable, "-m", "dpsk", "budget", "plan", "--epsilon", "1", "--delta", "1e-5", "--fits", "2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "2 fits of epsilon 0.5 and delta 5e-06: every estimator" in result.stdout
