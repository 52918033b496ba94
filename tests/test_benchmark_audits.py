"""The benchmarks of audits: every estimator is there, faults are planted and go away, and reports say what rows say."""

import numpy as np
import pytest

pytest.importorskip("pandas")

from contract import ESTIMATORS

from benchmarks import planted, table
from benchmarks.experiments import audit_power, audits
from benchmarks.inside import (
    Claim,
    Dense,
    Discovery,
    GradientSum,
    Ledger,
    Ramp,
    additive,
    amplification,
    randomness,
    spherical,
)
from benchmarks.table import Rows
from dpsk import AuditResult, DPLogisticRegression


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    return tmp_path


def row_of(key, **values):
    return dict.fromkeys(audits.FIELDS, "") | dict(zip(audits.TABLE.key, key, strict=True)) | values


def test_every_estimator_is_audited_by_both_attackers():
    audited = {(what, attack) for what, _, _, attack in audits.keys(None)}
    for Estimator in ESTIMATORS:
        for attack in (audits.TRANSCRIPT, audits.MODEL):
            assert any(what.startswith(Estimator.__name__) for what, by in audited if by == attack), Estimator
    assert {what for what, _, _, _ in audits.keys(None)} == set(audits.CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", audits.CASES)
def test_each_case_can_be_audited_at_its_claim(name, monkeypatch):
    neighbours = [key[1] for key in audits.keys(None) if key[0] == name and key[3] == audits.TRANSCRIPT]
    for one in neighbours if "batches" not in name and "Line" not in name else ():  # these take a minute
        monkeypatch.setitem(audits.SECONDS, audits.TRANSCRIPT, {1.0: 0.1})
        row = dict(zip(audits.FIELDS, audits.measure(None, name, one, 1.0, audits.TRANSCRIPT), strict=True))
        assert (row["delta"] == 0) == (audits.CASES[name].delta == 0)
        assert (row["findings"] == 0) == ("ObjectivePerturbation" in name)
        assert row["refuted"] is False


def test_a_model_and_a_single_run_are_attacked(monkeypatch):
    monkeypatch.setattr(audits, "SECONDS", {key: {8.0: 0.2} for key in audits.SECONDS})
    for attack, neighbours in ((audits.MODEL, "zero-out"), (audits.ONE_RUN, "replace")):
        found = audits.measure(None, "OutputPerturbationLogisticRegression", neighbours, 8.0, attack)
        row = dict(zip(audits.FIELDS, found, strict=True))
        assert (row["findings"], row["refuted"], row["fits"] > 0) == (1, False, True)
        assert row["seen"]


ROWS = [
    row_of(("a", "zero-out", "1.0", "transcript"), findings="3", refuted="False", bound="0.98765", fits="12",
           pair="one"),
    row_of(("a", "zero-out", "8.0", "model"), findings="1", refuted="True", bound="9.5", fits="700", estimate="9.9",
           seen="60 pilot fits showed where to look, and 640 fresh fits were counted."),
    row_of(("a", "replace", "8.0", "one run"), findings="1", refuted="False", bound="0.0", fits="1", seen="7 of 10"),
    row_of(("b", "zero-out", "1.0", "transcript"), findings="0", refuted="False", bound="0.0", fits="0", notes="why"),
]  # fmt: skip


def test_a_bound_above_the_claim_is_counted_and_named(results, monkeypatch):
    times = {"delta": "1e-06", "seconds": "30.0", "processor seconds": "15.0"}
    monkeypatch.setattr(table.Table, "rows", lambda _: Rows(row | times for row in ROWS))
    monkeypatch.setattr(audits, "keys", lambda _: [tuple(row[field] for field in audits.TABLE.key) for row in ROWS])
    audits.report()
    text = (results / "audits.md").read_text()
    assert "**1 of 3 audits prove more than was claimed.** a, zero-out, 8.0, model: 9.5." in text
    assert "0.00 such" in text
    assert "with a probability of 0 % at most" in text
    assert "| a | zero-out | 1 | 1e-06 | 0.987 | 98 | 12 | 30 (15) | one |" in text
    assert "| b | zero-out | why |" in text
    assert "| a | zero-out | 8 | 1e-06 | 9.500, refuted | 118 | 700 | 30 (15) |  | 9.9 |" in text
    assert "2 minutes together, and had 1 minutes" in text


def test_the_yardstick_grows_with_fits_and_stays_below_the_claim():
    found = [
        float(audits.fair({"seen": f"and {n} fresh fits were counted", "delta": "1e-6", "claim": "8.0"}))
        for n in (200, 800, 5_000, 5_000_000)
    ]
    assert found == sorted(found)
    assert 0 < found[0] < 5 < found[-1] < 8
    assert audits.fair({"seen": "and 500 fresh fits were counted", "delta": "0.0", "claim": "8.0"}) == ""
    assert audits.fair({"seen": "7 of 10 guesses", "delta": "1e-6", "claim": "8.0"}) == ""


# Faults

PLACES = [
    (additive, "noise_scale"), (additive, "rounded_gaussian"), (additive, "discrete_laplace"), (spherical, "above"),
    (GradientSum, "__call__"), (Ledger, "charge"), (randomness.SystemBits, "__new__"), (amplification, "poisson_rdp"),
    (Dense, "row_gradients"), (Dense, "forward"), (Ramp, "activate"),
    (Discovery, "threshold"), (DPLogisticRegression, "fit"), (DPLogisticRegression, "predict_proba"),
]  # fmt: skip


def test_each_fault_is_there_inside_of_its_context_and_nowhere_else():
    def standing():
        return [getattr(owner, name) for owner, name in PLACES]

    honest = standing()
    for name, fault in audit_power.FAULTS.items():
        with fault.planted():
            assert standing() != honest, name
        assert standing() == honest, name
        assert fault.planted.__doc__, name


def test_uniform_noise_has_the_variance_that_was_paid_for():
    """100,000 draws: the standard error of the variance is .3 %."""
    with planted.uniform_noise():
        noise = additive.rounded_gaussian(10**6, 100_000, randomness.SystemBits())
    assert noise.std() / 1e6 == pytest.approx(1, rel=0.02)
    assert np.abs(noise).max() <= np.sqrt(3) * 1e6


def test_noise_is_repeated_once_in_a_fit():
    bits = randomness.SystemBits()
    with planted.repeated_noise():
        one, other, third = (additive.rounded_gaussian(scale, 5, bits) for scale in (10**6, 2 * 10**6, 10**6))
        fresh = additive.rounded_gaussian(10**6, 5, randomness.SystemBits())
    assert other.tolist() == (2 * one).tolist()
    assert not {*one.tolist()} & {*third.tolist(), *fresh.tolist()}


def test_an_attack_gets_more_time_until_it_refutes(monkeypatch):
    given = []

    def audited(fault, attack, seconds, there):
        given.append((seconds, there))
        epsilon = 2.0 if there and seconds >= 30 else 0.5
        return Result(Claim(1.0, 1e-6), (), 0.999, "one", "row", "replace", seconds, "made data", epsilon=epsilon)

    monkeypatch.setattr(audit_power, "audited", audited)
    found = audit_power.measure(None, "one seed for all fits", audits.TRANSCRIPT)
    row = dict(zip(audit_power.FIELDS, found, strict=True))
    assert given == [(2.5, True), (5.0, True), (10.0, True), (20.0, True), (40.0, True), (10.0, False)]
    assert (row["caught"], row["given"], row["honest caught"]) == (True, 40.0, False)
    assert (row["bound"], row["honest bound"]) == (2.0, 0.5)


class Result(AuditResult):
    """A result that says what it is told."""

    def __init__(self, *given, epsilon):
        super().__init__(*given)
        object.__setattr__(self, "_told", epsilon)

    epsilon = property(lambda self: self._told)
    refuted = property(lambda self: self._told > self.claim.epsilon)


def test_a_fault_that_no_attack_catches_is_named(results, monkeypatch):
    def row(fault, attack, caught, seconds):
        numbers = {"seconds": seconds, "processor seconds": "1.0", "fits": "8", "bound": "1.5", "honest bound": "0.5"}
        told = {"caught": caught, "claim": "1.0", "honest caught": "False", "pair": "one row", "seen": ""}
        return {"fault": fault, "attack": attack, **told, **numbers}

    first, second = list(audit_power.FAULTS)[:2]
    rows = [
        row(first, "transcript", "True", "4.0"),
        row(first, "model", "True", "2.0"),
        row(second, "transcript", "False", "60.0"),
        row(second, "model", "False", "60.0"),
    ]
    monkeypatch.setattr(table.Table, "rows", lambda _: Rows(rows))
    audit_power.report()
    text = (results / "audit_power.md").read_text()
    assert f"1 of 2 faults are caught by at least one attack.** Not caught: {second}." in text
    assert "needs 2 seconds in the median" in text
    limit = audit_power.TIMES["model"][-1]
    assert f"| {second} | model | 1 | not within {limit:g} s |" in text
    assert "refutes 0 of 4" in text.replace("\n", " ")
