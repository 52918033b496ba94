"""A report says what was promised, shows nothing that was not paid for, and cannot be written into."""

import dataclasses
import json
import math
import pickle
import re
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from contract import CHECKED, SHORT
from scipy.stats import norm
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from dpsk import (
    DPGradientDescentClassifier,
    DPLogisticRegression,
    DPTabularClassifier,
    PrivacyLedger,
    PrivacyReport,
    PrivateCalibration,
    PrivateSearchCV,
    PrivateThreshold,
    private_evaluation,
    private_score,
)
from dpsk.audits.audit_result import AuditResult
from dpsk.audits.claims import Claim
from dpsk.audits.finding import Finding
from dpsk.privacy import conversions
from dpsk.privacy.report import PrivacySpent
from dpsk.reports import wording
from dpsk.reports.attacker import Attacker
from dpsk.reports.audit_drawing import audited
from dpsk.reports.drawings import profile, spending, trade_off
from dpsk.reports.html_page import _DARK, _LIGHT
from dpsk.reports.markdown_page import escaped
from dpsk.reports.plain_values import plain
from dpsk.reports.wording import percent, percent_down, round_down
from dpsk.testing import check_twins

PAGE = Path(__file__).parents[1] / "docs" / "report.md"
HOSTILE = "<script>alert(1)</script> \"quoted\" 'q' & [link](http://evil) **bold** `code` | # x\u202ereversed\x00\ud800"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(600, 3)), columns=["age", HOSTILE[:-1], "last"])  # Arrow takes no lone surrogate
    return X, np.where(X["age"] + 0.2 * rng.normal(size=600) > 0.5, "ill <b>", "healthy")


@pytest.fixture(scope="module")
def model(table):
    return DPLogisticRegression(1.0, 1e-4, bounds=(0, 1)).fit(*table)


# ---------------------------------------------------------------------------------------------- the attacker


def random_pairs(seed, outcomes=7):
    """Yield pairs of distributions, and the profile that holds for them in both orders on a grid."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        P, Q = (rng.dirichlet(rng.choice([0.3, 1.0, 5.0]) * np.ones(outcomes)) for _ in range(2))
        epsilons = np.concatenate([[0.0], np.sort(rng.uniform(0, 4, rng.integers(1, 12)))])
        deltas = [max(np.maximum(0, A - math.exp(e) * B).sum() for A, B in ((P, Q), (Q, P))) for e in epsilons]
        yield P, Q, Attacker(tuple(zip(epsilons.tolist(), map(float, deltas), strict=True)))


def test_no_test_of_a_random_pair_beats_the_curve():
    for P, Q, attacker in random_pairs(0):
        alarms, misses = attacker.trade_off.T
        assert (np.diff(alarms) >= 0).all()
        assert (np.diff(misses) <= 0).all()
        for chosen in product([False, True], repeat=len(P)):
            says = np.array(chosen)
            assert 1 - P[says].sum() >= np.interp(Q[says].sum(), alarms, misses) - 1e-12


def test_no_guess_or_belief_of_a_random_pair_goes_beyond():
    for P, Q, attacker in random_pairs(1):
        for before in (0.01, 0.3, 0.5, 0.8):
            best = np.maximum(before * P, (1 - before) * Q).sum()
            assert best <= attacker.right(before) <= 1
            after = before * P / (before * P + (1 - before) * Q)
            for exception in (0.3, 0.05, 1e-3):
                beyond = after > attacker.surest(before, exception)
                assert max(P[beyond].sum(), Q[beyond].sum()) <= exception


@pytest.mark.parametrize("mu", [0.05, 0.24, 1.0, 4.0])
def test_the_curve_of_gaussian_noise_is_met_from_below(mu):
    attacker = Attacker.of(lambda e: conversions.gaussian_delta(e, mu), conversions.gaussian_epsilon(1e-6, mu))
    alarms = np.linspace(0.001, 0.999, 300)
    exact = norm.cdf(norm.ppf(1 - alarms) - mu)
    found = np.interp(alarms, *attacker.trade_off.T)
    assert np.max(np.abs(found - exact)) < 3e-3
    corners = attacker.trade_off[1:-1]
    assert (corners[:, 1] <= norm.cdf(norm.isf(corners[:, 0]) - mu) + 1e-14).all()


@pytest.mark.parametrize("mu", [0.05, 0.24, 1.0, 4.0])
def test_guesses_and_beliefs_about_gaussian_noise_are_nearly_exact(mu):
    """The best guess by a sum over what is seen; beliefs from the law of the privacy loss, N(mu^2/2, mu^2)."""
    attacker = Attacker.of(lambda e: conversions.gaussian_delta(e, mu), conversions.gaussian_epsilon(1e-6, mu))
    x = np.linspace(-12, 12 + mu, 400_001)
    for before in (0.01, 0.5, 0.9):
        best = np.maximum(before * norm.pdf(x - mu), (1 - before) * norm.pdf(x)).sum() * (x[1] - x[0])
        assert best - 1e-9 <= attacker.right(before) <= best + 2e-3
        for exception in (1e-3, 1e-6):
            loss = mu * mu / 2 + mu * norm.isf(exception)
            exact = 1 / (1 + (1 - before) / before * math.exp(-loss))
            assert exact <= attacker.surest(before, exception) <= exact + 0.06


def test_randomised_response_is_met_exactly():
    attacker = Attacker.of(lambda e: conversions.pure_delta(e, 1.0), 1.0)
    honest = math.e / (1 + math.e)
    assert attacker.right(0.5) == pytest.approx(honest, abs=1e-9)
    assert attacker.surest(0.5, 0.0) == pytest.approx(honest, abs=1e-9)
    assert attacker.surest(0.5, 0.0) >= honest
    corner = attacker.trade_off[len(attacker.trade_off) // 2]
    assert corner == pytest.approx([1 - honest, 1 - honest], abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 40.0, 300.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.4])
def test_any_pair_can_be_drawn(epsilon, delta):
    """A pair alone says what Kairouz, Oh & Viswanath (2015) say of it."""
    attacker = Attacker(((epsilon, delta),))
    distance = 1.0 if epsilon > 40 else (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
    assert attacker.right(0.5) == pytest.approx((1 + distance) / 2, abs=1e-9)
    one = {"epsilon": epsilon, "delta": delta, "unit": "row", "profile": [[epsilon, delta]], "releases": []}
    one |= {"trade_off": attacker.trade_off.tolist(), "attacker": [{"before": 0.5, "right": attacker.right(0.5)}]}
    for draw in (trade_off, profile, spending):
        assert "nan" not in draw(one).svg


def test_percentages_are_rounded_against_the_fit():
    assert percent(0.6941) == "69.5 %"
    assert percent(0.695) == "69.5 %"
    assert percent(math.nextafter(0.5, 1)) == "50.1 %"
    assert percent_down(0.4529) == "45.2 %"
    assert [round_down(left, 3) for left in (0.12399, 2.0, 0.0, 1.9999e-7)] == ["0.123", "2", "0", "1.99e-07"]


# ---------------------------------------------------------------------------------------------- what is said


def test_the_numbers_are_those_of_the_fit(model):
    report = PrivacyReport(model, n_rows=600).to_dict()
    (one,) = report["guarantees"]
    spent = model.privacy_spent_
    assert report["status"] == "private"
    assert (one["epsilon"], one["delta"], one["charged"]) == (spent.epsilon, spent.delta, spent.charged)
    assert one["groups"][0]["epsilon"] == spent.epsilon_for_group(2)
    assert sum(release["count"] for release in one["releases"]) == sum(r.count for r in spent.releases)
    for epsilon, delta in one["profile"][::10]:
        assert delta == min(1.0, spent.delta_at(epsilon))
    assert report["data"]["n_rows"] == 600
    assert report["data"]["classes"] == ["healthy", "ill <b>"]
    (layer,) = report["subject"]["layers"]
    assert layer["values"]["bounds"] == [0, 1]
    assert "bounds" not in layer["defaults"]
    assert "alpha" in layer["defaults"]


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", CHECKED)
def test_every_estimator_has_a_page(Estimator, table, tmp_path):
    X, y = np.asarray(table[0]), table[1]
    fitted = Estimator(epsilon=2.0, delta=1e-4, **SHORT.get(Estimator, {})).fit(X, y)
    report = PrivacyReport(fitted)
    (one,) = report.to_dict()["guarantees"]
    beliefs = {belief["before"]: belief for belief in one["attacker"]}
    naive = math.exp(2.0) / 0.9  # odds from the pair alone: delta is a tenth of 1 in 1,000
    assert 0.5 < beliefs[0.5]["right"] <= 0.5 + 0.5 * math.tanh(1.0) + 1e-3
    assert beliefs[0.5]["mostly"] <= naive / (1 + naive) + 1e-9
    for suffix in ("html", "md", "json"):
        report.save(tmp_path / f"page.{suffix}")
        assert (tmp_path / f"page.{suffix}").stat().st_size > 2000


@pytest.mark.slow
def test_models_with_others_inside(table):
    X, y = np.asarray(table[0]), table[1]
    kept = DPLogisticRegression(1.0, 1e-4, bounds=(0, 1))
    pipeline = make_pipeline(Normalizer(), StandardScaler(), kept).fit(X, y)
    report = PrivacyReport(pipeline).to_dict()
    assert report["status"] == "partly private"
    assert "learned from the rows: standardscaler." in report["warnings"][0]
    assert PrivacyReport(make_pipeline(Normalizer(), kept).fit(X, y)).to_dict()["status"] == "private"

    both = PrivacyReport(PrivateThreshold(kept.fit(X[:300], y[:300]), epsilon=2.0).fit(X[300:], y[300:])).to_dict()
    assert [one["about"] for one in both["guarantees"]] == ["training data", "held-out data"]
    assert [one["epsilon"] for one in both["guarantees"]] == [1.0, 2.0]
    exact = PrivateCalibration(LinearSVC().fit(X[:300], y[:300]), epsilon=2.0).fit(X[300:], y[300:])
    half = PrivacyReport(exact)
    assert half.to_dict()["status"] == "partly private"
    assert half.to_dict()["warnings"][0].startswith("NO GUARANTEE for the rows that LinearSVC learned from")
    assert "In part only: pure 2-differential privacy for each row of the held-out data." in half.to_html()

    searched = PrivateSearchCV(DPGradientDescentClassifier(), {"alpha": [1e-3, 1e-2]}, epsilon=4.0, delta=1e-4)
    report = PrivacyReport(searched.fit(X, y)).to_dict()
    assert [one["of"] for one in report["guarantees"]] == ["PrivateSearchCV"]
    assert report["guarantees"][0]["epsilon"] == 4.0
    assert report["subject"]["chosen"].keys() == {"alpha"}
    with pytest.warns(UserWarning, match="."):
        plain = GridSearchCV(DPLogisticRegression(1.0, 0.01), {"alpha": [1e-3]}, cv=2).fit(X[:40], y[:40])
    assert PrivacyReport(plain).to_dict()["status"] == "partly private"


@pytest.mark.parametrize(("parameters", "why"), [({"random_state": 987654}, "seed"), ({"epsilon": math.inf}, "exact")])
def test_what_is_not_private_says_so_first_and_promises_nothing(table, parameters, why):
    fitted = DPLogisticRegression(**{"epsilon": 1.25, "delta": 3e-4, **parameters}).fit(*table)
    report = PrivacyReport(fitted, n_rows=600)
    values, page, markdown = report.to_dict(), report.to_html(), report.to_markdown()
    assert values["status"] == "not private"
    assert why in values["warnings"][0]
    assert page[page.index("<body>") :].index("NOT PRIVATE") < page[page.index("<body>") :].index("<h1>")
    assert markdown.startswith("**NOT PRIVATE")
    (one,) = values["guarantees"]
    assert (one["epsilon"], one["statement"], one["profile"], one["attacker"]) == (None, None, [], [])
    assert "differential privacy" not in page + markdown
    assert "<svg" not in page
    assert "987654" not in page + markdown + report.to_json() + repr(report)


def test_a_seed_inside_is_not_told_either(table):
    inner = DPLogisticRegression(1.0, 1e-4, random_state=987654).fit(*table)
    step = StandardScaler().set_params(copy=True)
    report = PrivacyReport(make_pipeline(step, inner).fit(*table)).to_json()
    assert "987654" not in report
    assert "given, and not shown" in report


def test_a_fit_that_failed_is_no_model(model):
    broken = DPLogisticRegression(1.0, 1e-4)
    spent = model.privacy_spent_
    broken.privacy_spent_ = PrivacySpent(**{**vars(spent), "complete": False})
    report = PrivacyReport(broken)
    assert report.to_dict()["status"] == "no model"
    assert "NO MODEL" in report.to_html()


def test_evaluations_are_in_it(model, table):
    X, y = table
    score = private_score(model, X, y, epsilon=1.0)
    values = PrivacyReport(model, evaluation=score).to_dict()["evaluation"]
    assert values["numbers"]["accuracy"]["interval"] == list(score.interval)
    judged = private_evaluation(model, X, y, epsilon=1.0)
    report = PrivacyReport(model, evaluation=judged)
    assert report.to_dict()["evaluation"]["numbers"]["auc"]["value"] == judged.auc.value
    low, high = judged.auc.interval
    assert f"{math.floor(1e3 * low) / 1e3:.3f} to {math.ceil(1e3 * high) / 1e3:.3f}" in report.to_html()
    seeded = PrivacyReport(model, evaluation=private_score(model, X, y, epsilon=1.0, random_state=0)).to_dict()
    assert seeded["status"] == "not private"
    assert seeded["guarantees"][0]["epsilon"] == 1.0  # the model keeps its own promise


class Audit:
    def statement(self):
        return "At least 0.3 <b>with</b> 95 % confidence."

    def to_dict(self):
        return {"bound": np.float64(0.3), "most": math.inf, "curve": np.arange(3)}


def test_an_audit_is_in_it(model):
    report = PrivacyReport(model, audit=Audit())
    assert report.to_dict()["audit"]["result"] == {"bound": 0.3, "most": "inf", "curve": [0, 1, 2]}
    assert "At least 0.3 &lt;b&gt;with&lt;/b&gt; 95 % confidence." in report.to_html()


CLAIM = Claim(1.0, 1e-4)
PROOF = "The proof that it is kept is in the theorems."


def found(epsilon, *, pair="one huge row", refuted=False, **more):
    return Finding("transcript", pair, epsilon, refuted, 1000, 2.0, "every release", **more)


def audited_by(*findings, claim=CLAIM, of="DPLogisticRegression()", unit="row", adjacency="zero-out"):
    return AuditResult(claim, findings, 0.999, of, unit, adjacency, 3.0, "made data")


def test_an_audit_that_refutes_nothing_changes_no_promise(model):
    report = PrivacyReport(model, audit=audited_by(found(0.8, estimate=0.9)))
    values, page = report.to_dict(), report.to_html()
    assert (values["status"], values["audit"]["refuted"], values["warnings"], values["doubts"]) == (
        "private",
        False,
        [],
        [],
    )
    assert values["audit"]["result"]["findings"][0]["epsilon"] == 0.8
    assert "<h2>What it means</h2>" in page
    assert page.count(wording.AUDITS) == 1
    assert PROOF in page


@pytest.mark.parametrize("one", [found(1.7, refuted=True), found(math.inf, refuted=True, leaks=("it shows.",))])
def test_a_refuted_promise_is_named_first_and_nothing_follows_from_it(model, one):
    report = PrivacyReport(model, audit=audited_by(found(0.2), one))
    values, page, markdown = report.to_dict(), report.to_html(), report.to_markdown()
    assert values["status"] == "refuted"
    assert values["audit"]["refuted"] is True
    assert page[page.index("<body>") :].index('class="no" role="alert">AUDIT: the promise is refuted') < page.index(
        "<h1>"
    )
    assert markdown.startswith("**AUDIT: the promise is refuted")
    assert "refuted" in repr(report)
    for text in (page, markdown):
        assert "Claimed, and refuted by an audit: " in text
        assert "The audit has shown that this is false." in text
        for promise in (
            "Whoever sees everything",
            "What it means",
            "is the guarantee",
            PROOF,
            "Not covered",
        ):
            assert promise not in text
    assert "REFUTED: the promise of DPLogisticRegression()" in page


def test_whoever_says_that_it_refuted_is_believed(model):
    class Refuting(Audit):
        refuted = True

    assert PrivacyReport(model, audit=Refuting()).to_dict()["status"] == "refuted"


def test_a_seed_comes_before_a_refuted_promise(table):
    fitted = DPLogisticRegression(1.0, 1e-4, random_state=3).fit(*table)
    report = PrivacyReport(fitted, audit=audited_by(found(1.7, refuted=True)))
    assert report.to_dict()["status"] == "not private"
    assert [text.split(":")[0] for text in report.to_dict()["warnings"]] == ["NOT PRIVATE", "AUDIT"]
    assert "differential privacy" not in report.to_html().replace("DPLogisticRegression", "")


OTHERS = {
    "estimator": (
        {"of": "DPTabularClassifier(epsilon=1)"},
        "The audit was of DPTabularClassifier for each row, this model is a DPLogisticRegression for each row.",
    ),
    "longer name": (
        {"of": "DPLogisticRegressionOfOthers"},
        "The audit was of DPLogisticRegressionOfOthers for each row, "
        "this model is a DPLogisticRegression for each row.",
    ),
    "unit": (
        {"of": "DPTabularClassifier", "unit": "person"},
        "The audit was of DPTabularClassifier for each person, this model is a DPLogisticRegression for each row.",
    ),
    "neighbours": (
        {"adjacency": "replace"},
        "The audit was of DPLogisticRegression for each row (one row is replaced by any other), this model is a "
        "DPLogisticRegression for each row (one row leaves every sum while the number of rows stays as it is).",
    ),
    "neighbours of others": (
        {"adjacency": "add-remove"},
        "The audit was of DPLogisticRegression for each row (one row is added or removed), this model is a "
        "DPLogisticRegression for each row (one row leaves every sum while the number of rows stays as it is).",
    ),
    "claim": (
        {"claim": Claim(8.0, 1e-5)},
        "The audit attacked epsilon = 8 at delta = 1e-05, this report promises epsilon = 1 at delta = 0.0001.",
    ),
    "pure claim": (
        {"claim": Claim(8.0, 0.0)},
        "The audit attacked epsilon = 8, this report promises epsilon = 1 at delta = 0.0001.",
    ),
}


@pytest.mark.parametrize("refuted", [False, True])
@pytest.mark.parametrize("name", OTHERS)
def test_an_audit_of_another_promise_says_nothing_about_this_one(model, name, refuted):
    given, said = OTHERS[name]
    report = PrivacyReport(model, audit=audited_by(found(0.9, refuted=refuted), **given))
    values, page = report.to_dict(), report.to_html()
    assert (values["status"], values["warnings"], values["audit"]["refuted"]) == ("private", [], False)
    assert values["audit"]["result"]["refuted"] is refuted
    assert values["audit"]["mismatch"].startswith(said)
    (doubt,) = values["doubts"]
    assert doubt == f"AUDIT: t{values['audit']['mismatch'][1:]}"
    assert ("It refuted another promise than the one made here." in doubt) is refuted
    assert 'class="no"' not in page
    assert '<p class="weak">AUDIT: the audit ' in page
    assert PROOF not in page
    assert "It says nothing about the promise of this report." in page
    assert "Whoever sees everything" in page  # the promise stands


def test_a_smaller_claim_that_is_broken_beyond_this_one_refutes_it(model):
    """The fit that was attacked had as much noise as this model, or more, and its epsilon is larger than promised."""
    smaller = PrivacyReport(model, audit=audited_by(found(1.2, refuted=True), claim=Claim(0.5, 1e-4)))
    assert smaller.to_dict()["status"] == "refuted"
    within = PrivacyReport(model, audit=audited_by(found(0.8, refuted=True), claim=Claim(0.5, 1e-4)))
    assert within.to_dict()["status"] == "private"
    weaker_delta = PrivacyReport(model, audit=audited_by(found(1.2, refuted=True), claim=Claim(0.5, 1e-6)))
    assert weaker_delta.to_dict()["status"] == "private"


@pytest.mark.parametrize("refuted", [False, True])
def test_a_fit_with_less_noise_refutes_nothing_but_makes_doubt(model, refuted):
    """An audit of a fit with epsilon = 8 proves 3: that is no proof against a fit with epsilon = 1."""
    epsilon = 9.0 if refuted else 3.0
    report = PrivacyReport(model, audit=audited_by(found(epsilon, refuted=refuted), claim=Claim(8.0, 1e-4))).to_dict()
    assert report["status"] == "private"
    assert "audit the model with its own parameters" in report["doubts"][0]


def test_an_audit_of_a_pipeline_or_of_an_inner_model_is_one_of_the_subject(table):
    X, y = table
    whole = make_pipeline(Normalizer(), DPLogisticRegression(1.0, 1e-4)).fit(X, y)
    for name in ("Pipeline", "DPLogisticRegression"):
        report = PrivacyReport(whole, audit=audited_by(found(1.7, refuted=True), of=name)).to_dict()
        assert report["status"] == "refuted", name


def test_the_promises_for_training_and_for_held_out_data_are_told_apart(table):
    X, y = table
    inner = DPLogisticRegression(2.0, 1e-4).fit(X[:300], y[:300])
    whole = PrivateThreshold(inner, epsilon=1.0).fit(X[300:], y[300:])
    training, held_out = (Claim(one["epsilon"], one["delta"]) for one in PrivacyReport(whole).to_dict()["guarantees"])
    assert training != held_out
    for claim, name, status in [
        (training, "DPLogisticRegression", "refuted"),
        (held_out, "PrivateThreshold", "refuted"),
        (training, "PrivateThreshold", "private"),
    ]:
        unit = PrivacyReport(whole).to_dict()["guarantees"][claim == held_out]
        given = {"of": name, "claim": claim, "adjacency": unit["adjacency"]}
        leak = audited_by(found(0.0, refuted=True, leaks=("it shows",)), **given)
        assert PrivacyReport(whole, audit=leak).to_dict()["status"] == status, name


def test_an_audit_of_a_fit_does_not_refute_a_ledger(tmp_path):
    ledger = PrivacyLedger(tmp_path / "all.db", epsilon=1.0, delta=1e-4)
    report = PrivacyReport(ledger, audit=audited_by(found(1.7, refuted=True))).to_dict()
    assert report["status"] == "private"
    assert "this report is of the PrivacyLedger all.db for each row" in report["doubts"][0]


def test_what_an_audit_of_others_does_not_tell_is_not_compared(model):
    class Refuting(Audit):
        refuted = True

        def to_dict(self):
            return {"claim": {"epsilon": 1, "delta": 1e-4}}

    assert PrivacyReport(model, audit=Refuting()).to_dict()["status"] == "refuted"


def test_an_audit_of_data_that_were_given_is_no_part_of_a_public_page(model):
    given = dataclasses.replace(audited_by(found(0.3)), data="the data given")
    (doubt,) = PrivacyReport(model, audit=given).to_dict()["doubts"]
    assert "without noise from data that were given" in doubt


def picture_of(*findings, claim=CLAIM):
    return audited({"result": plain(audited_by(*findings, claim=claim).to_dict())})


def width(svg):
    return [float(wide) for wide in re.findall(r'<rect class="[^"]*" x="0" y="[^"]*" width="([\d.]+)"', svg)]


def test_the_picture_of_an_audit_has_a_bar_for_each_attack_and_a_line_at_the_claim():
    picture = picture_of(found(0.25), found(0.5, estimate=0.75))
    strong, weak = width(picture.svg)
    claims = {float(x) for x in re.findall(r'<line class="claim" x1="([\d.]+)"', picture.svg)}
    (line,) = claims
    assert (strong / line, weak / line) == (pytest.approx(0.5, abs=1e-3), pytest.approx(0.25, abs=1e-3))
    (circle,) = re.findall(r'<circle class="open" cx="([\d.]+)"', picture.svg)
    assert float(circle) / line == pytest.approx(0.75, abs=1e-3)
    assert "broken" not in picture.svg
    assert "claim: 1<" in picture.svg
    assert "Epsilon at delta = 0.0001 is at least" in picture.caption
    assert picture.alt.startswith("The claim is epsilon = 1. Proved: transcript: one huge row, 0.5 or more; ")


def test_bars_that_break_the_promise_are_hatched_and_infinite_ones_end_in_an_arrow():
    picture = picture_of(found(2.0, refuted=True), found(0.5), found(math.inf, refuted=True))
    assert picture.svg.count('class="bar broken"') == 3  # two bars and an arrow
    assert picture.svg.count("<polygon") == 1
    assert 'class="hatch"' in picture.svg
    assert ">infinite<" in picture.svg
    assert "which breaks the promise" in picture.alt
    assert "A hatched bar breaks the promise." in picture.caption
    assert not re.search("nan|inf[^i]", picture.svg)


def test_a_picture_has_four_attacks_at_most_and_reads_no_name_as_html():
    picture = picture_of(*[found(k / 10, pair=f"<b>{k}</b>" + "long " * 20) for k in range(9)])
    assert len(width(picture.svg)) == 4
    assert "5 more attacks are not shown." in picture.caption
    assert "<b>" not in picture.svg
    assert width(picture_of(found(0.0)).svg) == [0.0]


def test_a_leak_without_a_count_has_a_whole_hatched_bar():
    leak = found(0.0, pair="one row: new", refuted=True, leaks=("it shows",), estimate=0.5)
    picture = picture_of(found(0.4, pair="one row: huge", estimate=0.0), leak)
    assert width(picture.svg) == [248.0, pytest.approx(248 * 0.4 / 1.08, abs=0.1)]
    assert '"open"' not in picture.svg
    assert ">leak<" in picture.svg
    assert "transcript: new, seen without noise, which breaks the promise" in picture.alt
    assert "Leak: seen without noise." in picture.caption
    assert ">transcript: huge<" in picture.svg


def test_long_names_are_cut_in_the_middle():
    picture = picture_of(found(0.5, pair=f"begins {'long ' * 20}ends"))
    assert re.search(">transcript: begins [^<]*…[^<]*ends<", picture.svg)


@pytest.mark.parametrize("far", [0.013, 0.7, 1.0, 1.99, 2.4, 5.3, 9.99, 10.0, 73.2, 1e4])
def test_a_profile_has_round_ticks(far):
    line = [[0.0, 0.5], [far / 2, 1e-4], [far, 1e-6]]
    svg = profile({"epsilon": far / 2, "delta": 1e-4, "profile": line}).svg
    ticks = [float(text) for text in re.findall(r'text-anchor="middle">([\d.e+-]+)<', svg)]
    assert 3 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert far * 0.5 < ticks[-1] <= far
    assert f"{ticks[1]:e}"[0] in "125"
    assert f"{ticks[1]:.6e}"[1:8] == ".000000"


def test_the_strongest_attack_of_each_kind_is_shown():
    weak = dataclasses.replace(found(0.1), attack="model")
    picture = picture_of(*[found(k / 10, pair=f"pair {k}") for k in range(2, 9)], weak)
    shown = re.findall(r'<text x="0"[^>]*>([^<]*)<', picture.svg)
    assert shown == ["transcript: pair 8", "transcript: pair 7", "transcript: pair 6", "model: one huge row"]


@pytest.mark.parametrize(
    "result",
    [
        "text",
        {},
        {"claim": {"epsilon": 1.0, "delta": 0.0}},
        {"claim": {"epsilon": 1.0, "delta": 0.0}, "findings": []},
        {"claim": {"epsilon": 1.0, "delta": 0.0}, "findings": "many"},
        {"claim": {"epsilon": 1.0, "delta": 0.0}, "findings": [3, {"attack": "a"}]},
        {"claim": {"epsilon": None, "delta": 0.0}, "findings": [{"epsilon": 0.1}]},
        {"claim": [1.0, 0.0], "findings": [{"epsilon": 0.1}]},
    ],
)
def test_results_of_other_audits_need_no_picture(result):
    assert audited({"result": result}) is None


def test_a_foreign_result_with_findings_has_one():
    picture = audited(
        {"result": {"claim": {"epsilon": 1, "delta": 0}, "findings": [{"epsilon": "inf"}, {"epsilon": 1}]}}
    )
    assert "attack: data sets" in picture.svg
    assert ">infinite<" in picture.svg
    assert picture.caption.startswith("Epsilon is at least")


# ---------------------------------------------------------------------------------------------- public numbers


def test_the_numbers_of_rows_and_persons_come_from_the_fit(table):
    X, y = table
    of_rows = DPLogisticRegression(1.0, 1e-4).fit(X, y)
    data = PrivacyReport(of_rows).to_dict()["data"]
    assert (data["n_rows"], data["n_units"]) == (600, None)
    persons = DPLogisticRegression(1.0, 1e-4).fit(X, y, groups=np.arange(600) // 4)
    report = PrivacyReport(make_pipeline(Normalizer(), persons).fit(np.asarray(X), y)).to_dict()
    assert report["data"]["n_rows"] == 600
    report = PrivacyReport(persons)
    assert (report.to_dict()["data"]["n_rows"], report.to_dict()["data"]["n_units"]) == (600, None)
    persons.fit(X, y, groups=np.arange(600) // 4)
    report = PrivacyReport(persons, n_rows=600, n_units=np.int64(150))
    assert (report.to_dict()["data"]["n_rows"], report.to_dict()["data"]["n_units"]) == (600, 150)
    assert "<dt>Size</dt><dd>600 rows, 150 persons, 3 columns</dd>" in report.to_html()


@pytest.mark.parametrize(("given", "known"), [({"n_rows": 599}, "n_rows=600"), ({"n_units": 600}, "n_units=150")])
def test_a_number_that_contradicts_the_fit_is_refused(table, given, known):
    persons = DPLogisticRegression(1.0, 1e-4).fit(*table, groups=np.arange(600) // 4)
    with pytest.raises(ValueError, match=f"contradicts the model, which was fitted with {known}: leave"):
        PrivacyReport(persons, **given)


def test_a_delta_above_one_in_n_is_weak_without_being_told(table):
    with pytest.warns(UserWarning, match="larger than 1/n"):
        fitted = DPLogisticRegression(1.0, 0.01).fit(*table)
    assert any("more than 1 in 600 rows" in doubt for doubt in PrivacyReport(fitted).to_dict()["doubts"])


@pytest.mark.slow
def test_the_rows_of_an_evaluation_are_not_those_of_the_fit(table):
    X, y = np.asarray(table[0]), table[1]
    inner = DPLogisticRegression(1.0, 1e-4, bounds=(0, 1)).fit(X[:400], y[:400])
    held_out = PrivateThreshold(inner, epsilon=2.0).fit(X[400:], y[400:])
    assert (held_out.privacy_spent_.n_rows, held_out.privacy_spent_.n_units) == (200, None)
    assert PrivacyReport(held_out).to_dict()["data"]["n_rows"] == 400
    exact = PrivateCalibration(LinearSVC().fit(X[:300], y[:300]), epsilon=2.0).fit(X[300:], y[300:])
    assert PrivacyReport(exact).to_dict()["data"]["n_rows"] is None
    assert PrivacyReport(exact, n_rows=300).to_dict()["data"]["n_rows"] == 300
    assert private_score(inner, X, y, epsilon=1.0).privacy_spent.n_rows == 600
    searched = PrivateSearchCV(DPGradientDescentClassifier(), {"alpha": [1e-3, 1e-2]}, epsilon=4.0, delta=1e-4)
    assert PrivacyReport(searched.fit(X, y)).to_dict()["data"]["n_rows"] == 600


def test_models_of_older_versions_say_nothing(model):
    older = object.__new__(PrivacySpent)
    names = {"n_rows", "n_units"}
    vars(older).update({name: value for name, value in vars(model.privacy_spent_).items() if name not in names})
    fitted = DPLogisticRegression(1.0, 1e-4)
    fitted.privacy_spent_ = pickle.loads(pickle.dumps(older))
    assert fitted.privacy_spent_.to_dict()["n_rows"] is None
    assert PrivacyReport(fitted).to_dict()["data"]["n_rows"] is None
    assert PrivacyReport(fitted, n_rows=77).to_dict()["data"]["n_rows"] == 77


@pytest.mark.parametrize("currency", ["basic", "rho", "mu**2"])
def test_a_ledger_has_a_page(table, tmp_path, currency):
    X, y = table
    ledger = PrivacyLedger(tmp_path / "all.db", epsilon=3.0, delta=1e-4, currency=currency)
    for alpha in (1e-3, 1e-2):
        DPLogisticRegression(0.5, 1e-5, alpha=alpha, bounds=(0, 1), ledger=ledger).fit(X, y)
    report = PrivacyReport(ledger)
    values = report.to_dict()
    (one,) = values["guarantees"]
    assert (one["epsilon"], one["delta"], one["ledger"]) == (3.0, 1e-4, ledger.identity)
    assert [entry["label"] for entry in values["ledger"]["entries"]] == ["DPLogisticRegression"] * 2
    assert values["ledger"]["left"] == ledger.remaining()
    for epsilon, delta in one["profile"]:
        if epsilon >= 3.0:
            assert delta <= 1e-4
    history = ledger.history()
    assert history[0].started not in report.to_json()  # nor its end: only the day
    assert str(tmp_path) not in report.to_json() + report.to_html()


def test_a_ledger_with_a_seeded_fit_makes_no_promise(table, tmp_path):
    ledger = PrivacyLedger(tmp_path / "all.db", epsilon=3.0, delta=1e-4, allow_nonprivate=True)
    DPLogisticRegression(0.5, 1e-5, ledger=ledger, random_state=3).fit(*table)
    report = PrivacyReport(ledger)
    assert report.to_dict()["status"] == "not private"
    assert "differential privacy" not in report.to_html()


def test_weak_promises_are_called_weak(table):
    with pytest.warns(UserWarning, match="larger than 1/n"):
        fitted = DPLogisticRegression(20.0, 0.01).fit(*table)
    doubts = PrivacyReport(fitted, n_rows=600).to_dict()["doubts"]
    assert any("50 % sure" in doubt for doubt in doubts)
    assert any("more than 1 in 600 rows" in doubt for doubt in doubts)


@pytest.mark.parametrize(("epsilon", "weak"), [(2.9, False), (3.0, True)])
def test_an_evaluation_may_be_weak(model, table, epsilon, weak):
    doubts = PrivacyReport(model, evaluation=private_score(model, *table, epsilon=epsilon)).to_dict()["doubts"]
    assert any("the evaluation lets" in doubt and "95.3 % sure" in doubt for doubt in doubts) is weak


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("subject", "given", "error"),
    [
        (DPLogisticRegression(), {}, "without privacy_spent_"),
        (LinearSVC(), {}, "a LinearSVC without privacy_spent_"),
        (None, {}, "without privacy_spent_"),
        ("model", {"title": 3}, "title=3 must be a text"),
        ("model", {"n_rows": 0}, "n_rows=0 must be None or a positive integer"),
        ("model", {"n_units": True}, "n_units=True"),
        ("model", {"evaluation": 0.93}, "evaluation is a float"),
        ("model", {"audit": "good"}, r"audit is a str without statement\(\)"),
    ],
)
def test_mistakes_are_named(model, subject, given, error):
    with pytest.raises(ValueError, match=error):
        PrivacyReport(model if subject == "model" else subject, **given)


def test_a_file_has_a_known_suffix(model, tmp_path):
    with pytest.raises(ValueError, match=r"must end in one of \.html"):
        PrivacyReport(model).save(tmp_path / "report.pdf")


def test_a_report_stays_when_its_subject_changes(table):
    fitted = DPLogisticRegression(1.0, 1e-4).fit(*table)
    report = PrivacyReport(fitted)
    fitted.set_params(epsilon=2.0).fit(*table)
    assert report.to_dict()["guarantees"][0]["epsilon"] == 1.0
    report.to_dict()["status"] = "changed"
    assert report.to_dict()["status"] == "private"


# ---------------------------------------------------------------------------------------------- what is shown


class Reader(HTMLParser):
    """Reads a page: which elements there are, whether they are closed, and what they refer to."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes, self.text = [], set(), [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page):
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def hostile(model):
    said = ("title", "author", "contact", "data_description", "intended_use", "notes", "date")
    return PrivacyReport(model, n_rows=600, **dict.fromkeys(said, HOSTILE))


def test_html_cannot_be_written_into_and_needs_nothing(model):
    report = hostile(model)
    for page in (report.to_html(), report._repr_html_()):
        found = read(page)
        assert not found.seen & {"script", "b", "a", "link", "img", "iframe", "object", "base", "form"}
        assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")]
        assert "<script>alert(1)</script>" in found.text
        assert "\u202e" not in page
        assert "url(" not in page
        assert "@import" not in page
    assert "default-src 'none'" in report.to_html()


def test_markdown_cannot_be_written_into(model):
    page = hostile(model).to_markdown()
    unescaped = re.sub(r"\\.", "", page)
    for mark in ("<", ">", "`", "[", "](", "**bold**", "://"):
        assert mark not in unescaped
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows[:3]} == {8}


@pytest.mark.parametrize("text", ["1. one", "- one", "+ one", "# one", "> one", "=== x", "| a |", "a\n\n# b", "&lt;"])
def test_no_text_begins_a_list_a_heading_or_a_quote(text):
    assert escaped(text).startswith(("\\", "1\\.", "a"))
    assert "\n" not in escaped(text)


def test_json_is_that_of_any_reader(model, tmp_path):
    report = hostile(model)
    report.to_json(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == report.to_dict()
    assert "Infinity" not in report.to_json()
    assert "NaN" not in report.to_json()


def test_pages_have_headings_and_words_for_pictures(model):
    report = PrivacyReport(model)
    page = report.to_html()
    assert page.count("<h1>") == 1
    assert '<html lang="en">' in page
    pictures = re.findall(r'<svg [^>]*role="img" aria-label="([^"]{40,})"', page)
    assert len(pictures) == page.count("<svg") == 3
    for alt in pictures:
        assert escaped(alt.replace("&#x27;", "'")) in report.to_markdown()


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


@pytest.mark.parametrize("scheme", [_LIGHT, _DARK])
@pytest.mark.parametrize(
    ("ink", "paper", "least"),
    [
        ("ink", "paper", 7),
        ("soft", "paper", 4.5),
        ("on-no", "no", 4.5),
        ("on-weak", "weak", 7),
        ("here", "paper", 3),
        ("other", "paper", 3),
    ],
)
def test_contrast_is_enough(scheme, ink, paper, least):
    colours = dict(re.findall(r"--([\w-]+):(#\w+)", scheme))
    light, dark = sorted([luminance(colours[ink]), luminance(colours[paper])], reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= least


# ---------------------------------------------------------------------------------------------- twins


@pytest.mark.slow
@pytest.mark.parametrize("Estimator", [DPLogisticRegression, DPTabularClassifier])
def test_twins_differ_in_noise_alone(Estimator):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = np.where(X[:, 0] > rng.uniform(size=400), "ill", "healthy")

    def action(X, y):
        ledger = PrivacyLedger("all.db", epsilon=3.0, delta=1e-3)
        fitted = Estimator(0.5, 1e-4, ledger=ledger).fit(X, y)
        judged = private_evaluation(fitted, X, y, epsilon=0.5, ledger=ledger)
        report = PrivacyReport(fitted, n_rows=len(y), evaluation=judged, date="today")
        return report.to_dict(), report.to_html(), PrivacyReport(ledger, date="today").to_dict()

    check_twins(action, X, y)


@pytest.mark.slow
def test_the_twin_check_would_see_a_fact():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(400, 2)), rng.integers(0, 2, 400)

    def action(X, y):
        fitted = DPLogisticRegression(0.5, 1e-4).fit(X, y)
        return PrivacyReport(fitted, n_rows=len(y), notes=f"the largest value is {X.max()!r}", date="today").to_dict()

    with pytest.raises(AssertionError, match="told apart"):
        check_twins(action, X, y)


# ---------------------------------------------------------------------------------------------- the page of the docs


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """Return what the code of the page leaves."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("page")
    X = rng.normal(size=(4000, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.logistic(size=4000) > 1.5, "yes", "no")
    names = {"X_train": X[:2000], "y_train": y[:2000], "X_test": X[2000:], "y_test": y[2000:]}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    code = code.replace("clinic.db", str(folder / "clinic.db")).replace("report.html", str(folder / "report.html"))
    assert "seconds=20" in code
    exec(compile(code.replace("seconds=20", "seconds=2"), PAGE.name, "exec"), names)
    return names


def test_the_code_of_the_page_runs_and_its_numbers_are_printed(namespace):
    page = namespace["report"].to_html()
    text = " ".join(PAGE.read_text().split())
    belief, guess = re.search(
        r"at most ([\d.]+ %) sure in all but 1 of 1,000 cases\. A guess .* ([\d.]+ %) of", text
    ).groups()
    assert f"<td>{belief}</td>" in page
    assert f"right at most {guess} of the time" in page


def keys_of(heading):
    """Return the keys that a table of the page lists."""
    (table,) = re.findall(rf"\| {re.escape(heading)} \| value \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE.read_text())
    firsts = [line.split("|")[1] for line in table.splitlines()]
    return {key for first in firsts for key in re.findall(r"`(\w+)`", first)}


def test_the_page_lists_all_keys_and_no_others(namespace):
    values = namespace["report"].to_dict()
    record = PrivacyReport(namespace["ledger"]).to_dict()
    assert values.keys() == record.keys() == keys_of("key")
    assert values["subject"].keys() == record["subject"].keys() == keys_of("in `subject`")
    assert values["data"].keys() == record["data"].keys() == keys_of("in `data`")
    for one in [*values["guarantees"], *record["guarantees"]]:
        assert one.keys() == keys_of("in each of `guarantees`")
    assert record["ledger"].keys() == keys_of("in `ledger`")
    assert values["evaluation"].keys() == keys_of("in `evaluation`")
    listed = set(re.findall(r"`(\w+)`", PAGE.read_text()))
    assert values["audit"].keys() <= listed
    assert (values["status"], values["audit"]["mismatch"], values["doubts"]) == ("private", None, [])
    (release, *_), (belief, *_) = values["guarantees"][0]["releases"], values["guarantees"][0]["attacker"]
    entry, layer = record["ledger"]["entries"][0], values["subject"]["layers"][0]
    for inner in (release, belief, entry, layer, values["guarantees"][0]["groups"][0], values["limits"][0]):
        assert inner.keys() <= listed


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([\w./-]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
