"""The result of an audit says what its findings say, in words, plain values and a picture, and hides no refutation."""

import builtins
import json
import math
import pickle

import numpy as np
import pytest

from dpsk.audits.audit_display import BROKEN, KEPT, MOST, AuditDisplay, chosen
from dpsk.audits.audit_result import AuditResult
from dpsk.audits.claims import Claim
from dpsk.audits.finding import Finding
from dpsk.privacy.currencies import GaussianDP
from dpsk.privacy.report import PrivacySpent
from dpsk.reports.wording import AUDITS

CLAIM = Claim(1.0, 1e-6)


def finding(epsilon=0.3, attack="transcript", pair="one huge row", **more):
    given = {"refuted": False, "fits": 1000, "seconds": 2.5, "seen": "every release of the fit"}
    return Finding(attack, pair, epsilon, **given | more)


def result(*findings, **more):
    given = {
        "claim": CLAIM,
        "confidence": 0.999,
        "estimator": "DPLogisticRegression(epsilon=1.0)",
        "unit": "row",
        "adjacency": "zero-out",
        "seconds": 12.0,
        "data": "made data",
    }
    return AuditResult(findings=findings, **given | more)


LEAK = finding(math.inf, pair="a new word", refuted=True, leaks=("categories_ has the word.",))
WEAK, STRONG = finding(0.2, "model"), finding(0.834567, estimate=0.94)
BREAKS = finding(2.34567, refuted=True)


@pytest.fixture
def pyplot():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def test_the_bound_is_that_of_the_strongest_attack():
    found = result(WEAK, STRONG)
    assert (found.epsilon, found.strongest, found.refuted, found.leaks) == (0.834567, STRONG, False, ())
    assert found.fits == 2000
    nothing = result()
    assert (nothing.epsilon, nothing.strongest, nothing.refuted) == (0.0, None, False)


def test_a_refutation_comes_before_a_larger_bound_and_an_estimate_decides_between_equals():
    refutes = finding(0.4, refuted=True)
    assert result(STRONG, refutes).strongest is refutes
    hopeful = finding(0.0, estimate=0.5)
    assert result(finding(0.0), hopeful).strongest is hopeful


@pytest.mark.parametrize(
    "one",
    [BREAKS, LEAK, finding(0.1, leaks=("it shows",)), finding(1.1), finding(math.inf)],
    ids=["refuted", "infinite leak", "leak", "more than the claim", "infinite"],
)
def test_whatever_contradicts_the_promise_refutes_it(one):
    """A finding that forgot to set ``refuted`` does not pass for a kept promise."""
    found = result(STRONG, one)
    assert found.refuted
    assert found.statement().startswith("REFUTED: the promise of DPLogisticRegression(epsilon=1.0)")
    assert "REFUTED" in repr(found)
    assert "promise broken" in found._repr_html_()
    assert found.to_dict()["refuted"] is True
    with pytest.raises(AssertionError, match="REFUTED: the promise of DPLogisticRegression"):
        found.check()


def test_what_is_kept_passes():
    found = result(WEAK, STRONG)
    found.check()
    assert "REFUTED" not in found.statement() + repr(found) + found._repr_html_()


def test_a_true_bound_at_the_claim_refutes_nothing():
    """The epsilon of a claim and that of its limit may differ in the last digits."""
    assert not result(finding(1.0 + 1e-9)).refuted


@pytest.mark.parametrize("findings", [(), (WEAK,), (STRONG, WEAK), (BREAKS,), (LEAK, STRONG)])
def test_every_statement_says_what_an_audit_cannot_show(findings):
    text = result(*findings).statement()
    assert text.endswith(AUDITS)
    assert "\n" not in text
    assert "epsilon = 1 at delta = 1e-06 for each row" in text
    assert "nan" not in text


def test_the_statement_says_what_was_done():
    text = result(WEAK, finding(0.734567, estimate=0.94, premise="The noise is Gaussian.")).statement()
    for part in (
        "With 99.9 % confidence, epsilon at this delta is at least 0.734. ",  # rounded down
        "The strongest attack saw the transcript of each fit: every number that the fit released, with its value "
        'before noise. The data sets differ in "one huge row". It read every release of the fit. ',
        "With infinitely many fits this attack would prove about 0.94. ",
        "This bound has a premise: The noise is Gaussian. ",
        "2 attacks looked at 2,000 fits in 12 seconds, on pairs",
        "one row leaves every sum while the number of rows stays as it is",
        "The audit was made on made data. ",
    ):
        assert part in text
    assert "no sign of danger" not in text
    assert "There was no attack." in result().statement()
    assert "1 attack looked at 1 fit in 1 second, " in result(finding(fits=1), seconds=1.2).statement()


def test_a_bound_close_to_the_claim_is_no_sign_of_danger():
    said = "That is no sign of danger. Close to the claim means that little of the budget is wasted. "
    assert said in result(STRONG).statement()
    assert said not in result(BREAKS, STRONG).statement()


@pytest.mark.parametrize(("epsilon", "said"), [(0.0, "0"), (1e-7, "0.001"), (9.9e-4, "0.001")])
def test_a_tiny_bound_is_0(epsilon, said):
    found = result(finding(epsilon))
    assert f"No attack proves an epsilon above {said}, with 99.9 % confidence. " in found.statement()
    assert "epsilon >= 0 (" in repr(found)
    assert "<td>0</td>" in found._repr_html_()


def test_an_attack_on_models_says_that_it_saw_them_only():
    seen = "Fitted models alone: their attributes and predictions. 6 pilot fits showed where to look."
    text = result(finding(0.2, "model", seen=seen)).statement()
    assert "The strongest attack saw fitted models only: their attributes and predictions. The data sets differ" in text
    assert '"one huge row". 6 pilot fits showed where to look. ' in text
    assert "stops" not in text
    early = "An attack stops as soon as the promise is broken, so epsilon may be far larger. "
    assert early in result(finding(1.2, "model", refuted=True, seen=seen)).statement()
    assert early not in result(BREAKS).statement()
    assert early not in result(finding(math.inf, "model", refuted=True, seen=seen)).statement()


def test_the_statement_of_a_refutation_says_what_is_wrong():
    assert "Epsilon is at least 2.34, with 99.9 % confidence. The strongest attack saw" in result(BREAKS).statement()
    text = result(LEAK, BREAKS).statement()
    assert "No finite epsilon is true" in text
    assert "Seen without any noise: categories_ has the word. " in text
    assert "REFUTED; epsilon is infinite (" in repr(result(LEAK, BREAKS))
    # other libraries have neighbours of their own, and a profile may refute where epsilon at this delta does not
    other = result(finding(0.5, refuted=True), adjacency="one row is added", claim=Claim(1.0, 0.0)).statement()
    assert "(one row is added)" in other
    assert "What the attack has counted contradicts it, with 99.9 % confidence. " in other
    assert 'The data sets differ in "one huge row"' in other
    assert "delta" not in other


def test_a_leak_with_a_small_bound_reads_like_no_contradiction():
    found = result(finding(0.4, pair="a new word", refuted=True, leaks=("it shows",)), finding(0.9))
    assert repr(found) == "<AuditResult: REFUTED by a leak (claim: 1 at delta=1e-06), 2000 fits>".replace(
        "2000", "2,000"
    )
    text = found.statement()
    assert "0.4" not in text
    assert "0.9 " not in text
    assert 'is false. Data sets that differ in "a new word" show it. Seen without any noise: it shows. ' in text
    assert "<td>seen without noise (promise broken)</td>" in found._repr_html_()
    assert repr(result(finding(0.4, leaks=("it shows",)), BREAKS)).startswith("<AuditResult: REFUTED; epsilon >= 2.34 ")


def test_of_many_leaks_one_of_each_attribute_is_told_and_three_at_most():
    same = "although all noisy values are the same, result "
    leaks = [f"{same}.{name}[{k}]: {k} became 7, whatever the noise" for name in "abcd" for k in range(12)]
    text = result(finding(refuted=True, leaks=tuple(leaks))).statement()
    assert text.count("whatever the noise") == 3
    for name in "abc":
        assert f"result .{name}[0]: 0 became 7, whatever the noise. " in text
    assert "And 45 more (result.leaks). " in text
    models = tuple(f"model.n_[{k}]: 20 in all 47 fits on the first data set, 21 in all others." for k in range(5))
    assert "And 4 more (result.leaks). " in result(finding(refuted=True, leaks=models)).statement()
    numbers = tuple(f"'sums' was released {k} times, and the report lists 1" for k in (2, 3))
    assert "And 1 more (result.leaks). " in result(finding(refuted=True, leaks=numbers)).statement()
    assert "(result.leaks)" not in result(LEAK).statement()


def test_neighbours_are_said_in_words():
    assert "(one row is added or removed)" in result(STRONG, adjacency="add-remove").statement()
    of_persons = result(STRONG, adjacency="add-remove", unit="patient").statement()
    assert "(one patient, with all rows, is added or removed)" in of_persons


def test_an_audit_of_data_that_were_given_says_that_it_tells_about_them():
    said = "computed from these without noise, so it tells about them."
    assert said in result(STRONG, data="the data given").statement()
    assert said not in result(STRONG).statement()


def test_what_was_left_out_is_counted_by_pairs():
    found = result(STRONG, notes=("one run: no columns.",))
    assert " 1 attack was left out (result.notes). " in found.statement()
    assert found.to_dict()["notes"] == ["one run: no columns."]
    notes = ("20 of 23 pairs: there was no time left", "1 of 23 pairs: nothing to read")
    assert " 21 pairs of data sets were left out (result.notes). " in result(STRONG, notes=notes).statement()
    both = result(STRONG, notes=(*notes, "the fit draws")).statement()
    assert " 21 pairs of data sets and 1 attack were left out (result.notes). " in both
    assert "left out" not in result(STRONG).statement()


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_of_numpy_are_numbers(kind):
    claim = Claim(kind(1.5), kind(2.0**-20))
    found = result(finding(kind(0.25)), claim=claim, confidence=kind(0.9375))
    assert "With 93.75 % confidence, epsilon at this delta is at least 0.25. " in found.statement()
    assert "epsilon = 1.5 at delta = 9.54e-07 for each row" in found.statement()
    assert "epsilon >= 0.25 (93.75 % sure; claim: 1.5 at delta=9.54e-07)" in repr(found)


def test_confidence_is_never_rounded_up():
    assert "99.9999 %" in result(STRONG, confidence=0.999999).statement()
    assert "99.95 %" in result(STRONG, confidence=0.9995).statement()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 99.9, math.nan])
def test_a_confidence_is_a_probability(confidence):
    with pytest.raises(ValueError, match=f"confidence={confidence!r} must lie between 0 and 1"):
        result(confidence=confidence)


@pytest.mark.parametrize("epsilon", [-0.1, math.nan])
def test_a_bound_is_a_number(epsilon):
    with pytest.raises(ValueError, match=f"epsilon={epsilon!r} of the attack 'transcript' is no bound"):
        result(finding(epsilon))


def test_plain_values_are_json():
    found = result(LEAK, finding(np.float64(0.2), "model", estimate=math.inf, fits=np.int64(3)))
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values == found.to_dict()
    assert (values["epsilon"], values["strongest"], values["leaks"]) == (None, 0, ["categories_ has the word."])
    infinite, second = values["findings"]
    assert (infinite["epsilon"], infinite["refuted"], second["epsilon"]) == (None, True, 0.2)
    assert (second["estimate"], second["fits"]) == (None, 3)
    assert values["claim"] == {"epsilon": 1.0, "delta": 1e-6}
    assert set(values["versions"]) == {"dpsk", "scikit-learn", "NumPy", "SciPy", "Python"}


def test_results_can_be_pickled():
    currency = GaussianDP()
    spent = PrivacySpent(1.0, 1e-6, None, currency, currency.limit(1.0, 1e-6), 0.0, "zero-out", private=True)
    for found in (result(STRONG, LEAK), result(STRONG, claim=Claim.of(spent))):
        copy = pickle.loads(pickle.dumps(found))
        assert copy.to_dict() == found.to_dict()
        assert copy.findings == found.findings


def test_a_table_of_html_reads_no_text_as_html():
    page = result(finding(pair="<script>alert(1)</script>"), estimator="<b>x</b>")._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page


# ---------------------------------------------------------------------------------------------- the picture


def bars(display):
    return [(bar.get_width(), bar.get_hatch()) for bar in display.ax_.patches]


def words(display):
    """Return the numbers beside the bars."""
    return [text.get_text() for text in display.ax_.texts if ": " not in text.get_text()]


def names(display):
    return [text.get_text() for text in display.ax_.texts if ": " in text.get_text()]


def keys(display):
    (legend,) = [*display.figure_.legends, *filter(None, [display.ax_.get_legend()])]
    return [text.get_text() for text in legend.get_texts()]


def test_a_bar_is_as_long_as_its_bound_and_a_line_stands_at_the_claim(pyplot):
    display = result(WEAK, STRONG).plot()
    assert [width for width, _ in bars(display)] == [0.834567, 0.2]
    assert words(display) == ["0.834", "0.2"]
    assert names(display) == ["transcript: one huge row", "model: one huge row"]
    (claim,) = [line for line in display.ax_.lines if list(line.get_xdata()) == [1.0, 1.0]]
    assert claim.get_linewidth() == 2
    assert display.ax_.get_xlabel() == "epsilon at delta = 1e-06"
    assert display.ax_.get_title() == "DPLogisticRegression(epsilon=1.0): not refuted"
    assert keys(display) == [
        "claim: 1",
        "epsilon is at least this (99.9 % sure)",
        "estimate for infinitely many fits",
    ]
    assert display.ax_.yaxis_inverted()  # the strongest is on top


def marks(display, marker):
    return [line for line in display.ax_.lines if line.get_marker() == marker]


def test_estimates_are_open_marks(pyplot):
    (mark,) = marks(result(WEAK, STRONG).plot(), "o")
    assert (list(mark.get_xdata()), mark.get_markerfacecolor()) == ([0.94], "white")
    nothing = result(finding(0.0, estimate=0.0), finding(0.3, estimate=0.1)).plot()
    assert not marks(nothing, "o")
    assert "estimate for infinitely many fits" not in keys(nothing)


def test_what_is_refuted_differs_in_colour_and_hatch(pyplot):
    display = result(BREAKS, WEAK).plot()
    assert bars(display) == [(2.34567, BROKEN["hatch"]), (0.2, KEPT["hatch"])]
    assert display.ax_.get_title().endswith("the promise is REFUTED")
    assert "the promise is broken (99.9 % sure)" in keys(display)
    assert BROKEN["facecolor"] != KEPT["facecolor"]


@pytest.mark.parametrize(("epsilon", "said"), [(math.inf, "infinite"), (50.0, "50")])
def test_what_is_far_beyond_the_claim_ends_in_an_arrow_at_the_right_edge(pyplot, epsilon, said):
    display = result(finding(epsilon, refuted=True), WEAK).plot()
    right = display.ax_.get_xlim()[1]
    assert right < 2
    (arrow,) = marks(display, ">")
    assert list(arrow.get_xdata()) == [right]
    assert bars(display)[0] == (right, BROKEN["hatch"])
    assert words(display)[0] == said


def test_a_leak_without_a_count_has_a_hatched_bar_as_wide_as_the_picture(pyplot):
    display = result(finding(0.0, refuted=True, leaks=("it shows",), estimate=0.5), WEAK).plot()
    assert bars(display) == [(display.ax_.get_xlim()[1], BROKEN["hatch"]), (0.2, KEPT["hatch"])]
    assert words(display) == ["seen without noise", "0.2"]
    assert not marks(display, "o")
    assert not marks(display, ">")


def test_an_audit_without_attacks_and_one_with_many(pyplot):
    assert words(result().plot()) == ["no attack"]
    pairs = [f"one row: {'a long name of a pair ' * 5}{k}" for k in range(MOST + 5)]
    display = result(*[finding(0.01 * k, pair=pair) for k, pair in enumerate(pairs)]).plot()
    assert len(bars(display)) == MOST == 8
    assert "(5 more attacks are not shown)" in display.ax_.get_xlabel()
    assert [name[-2:] for name in names(display)] == ["12", "11", "10", *[f" {k}" for k in range(9, 4, -1)]]
    assert all(name.startswith("transcript: a long") and "…" in name for name in names(display))


def test_the_best_of_each_attack_is_among_the_bars_and_those_of_one_attack_are_together():
    many = [finding(0.9 - 0.01 * k, pair=f"pair {k}") for k in range(12)]
    model, run = finding(0.1, "model"), finding(0.85, "one run")
    kept = chosen(sorted([*many, model, run], key=lambda one: -one.epsilon), 8)
    assert kept == [*many[:6], run, model]
    assert chosen([run, model], 1) == [run]


def overlap(boxes):
    return [(k, j) for k, one in enumerate(boxes) for j, other in enumerate(boxes) if k < j and one.overlaps(other)]


@pytest.mark.parametrize("high", [2.0, 4.8, 9.0])
@pytest.mark.parametrize("found", [0.0, 0.3], ids=["leak", "kept"])
def test_in_axes_that_are_given_no_words_lie_over_others(pyplot, high, found):
    leaks = {} if found else {"refuted": True, "leaks": ("it shows",)}
    ones = [finding(found + 0.01 * k, pair=f"one row: {'a long name ' * 9}{k}", **leaks) for k in range(14)]
    figure, axes = pyplot.subplots(2, 1, figsize=(6.4, high))
    display = result(*ones, finding(0.05, "model", estimate=0.2)).plot(ax=axes[0])
    figure.canvas.draw()
    legend = axes[0].get_legend().get_window_extent()
    texts = [text.get_window_extent() for text in display.ax_.texts]
    assert len(texts) >= 2
    assert not overlap([*texts, legend])
    assert not any(bar.get_window_extent().overlaps(legend) for bar in display.ax_.patches)
    frame = figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in texts)
    assert all(box.y1 <= axes[0].get_window_extent().y1 + 2 for box in texts)


def test_it_draws_in_the_axes_that_it_is_given(pyplot):
    _, ax = pyplot.subplots()
    display = AuditDisplay.from_result(result(STRONG), ax=ax, name="my model")
    assert display.ax_ is ax
    assert ax.get_title() == "my model: not refuted"
    assert keys(display)[0] == "claim: 1"


def test_a_pure_claim_has_no_delta_on_its_axis(pyplot):
    assert result(STRONG, claim=Claim(1.0, 0.0)).plot().ax_.get_xlabel() == "epsilon"


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    find = builtins.__import__

    def missing(name, *rest, **more):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return find(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"AuditDisplay draws with matplotlib: pip install 'dpsk\[plot\]'"):
        result(STRONG).plot()
