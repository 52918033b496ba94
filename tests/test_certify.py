"""The page about certifying parts from outside works as it is printed: sound parts pass, broken ones are refused."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import dpsk
from dpsk import testing
from dpsk.audits.claims import Claim

PAGE = Path(__file__).parent.parent / "docs" / "certify.md"
AUDITS = ("from dpsk import audit\n", "outside = audit(")


def blocks():
    """Return the pieces of code, with the name of the file that each shall be, if it has one."""
    pieces = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    named = [(re.match(r"# (\w+\.py)\n", piece), piece) for piece in pieces]
    return [(match.group(1), piece[match.end() :]) if match else (None, piece) for match, piece in named]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return what the code of the page leaves, and the lines that it printed; the audits are left out."""
    folder = tmp_path_factory.mktemp("certify")
    printed, namespace = [], {"__name__": "page", "print": lambda text: printed.append(text)}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.chdir(folder)
        names = [name.removesuffix(".py") for name, _ in blocks() if name]
        for name, piece in blocks():
            if name:
                (folder / name).write_text(piece)
            elif not piece.startswith(AUDITS):
                exec(compile(piece, PAGE.name, "exec"), namespace)
        yield namespace, printed
        for name in names:
            sys.modules.pop(name, None)


@pytest.mark.slow
def test_sound_parts_pass_and_each_broken_one_is_refused_for_what_is_wrong_with_it(run):
    """The comment below or behind each call, in which dots stand for anything, is what is printed."""
    _, printed = run
    said = re.findall(r"^print\(complaint\(.*\)\)(?:  # without cdf.*)?(?:  # |\n# )(.*)$", PAGE.read_text(), re.M)
    assert len(printed) == len(said) == 7
    for text, comment in zip(printed, said, strict=True):
        wanted = ".*".join(map(re.escape, comment.split("...")))
        assert re.fullmatch(wanted, text), text


@pytest.mark.slow
def test_both_mistakes_of_the_estimator_from_elsewhere_are_seen(run):
    namespace, _ = run
    X, y, NoisyMeans = (namespace[name] for name in ("X", "y", "NoisyMeans"))

    def fit(X, y):
        return NoisyMeans(strict=False).fit(X, y)

    with pytest.raises(AssertionError, match="count_: 20 became 21, whatever the noise"):
        testing.check_twins(fit, X, y, rows={"another label": (None, 1)})


@pytest.mark.slow
def test_a_complaint_needs_something_to_complain_about(run):
    namespace, _ = run
    with pytest.raises(RuntimeError, match="the check passed"):
        namespace["complaint"](namespace["check_loss"], namespace["Ramp"]())


def after_audits(run, beginning):
    """Return what a block with audits leaves, with less time than on the page."""
    (piece,) = [piece for _, piece in blocks() if piece.startswith(beginning)]
    namespace = run[0] | {"print": print, "audit": dpsk.audit}
    exec(compile(re.sub(r"seconds=\d+", "seconds=3", piece), PAGE.name, "exec"), namespace)
    return namespace


@pytest.mark.slow
def test_the_audit_of_the_page_refutes_nothing(run, capsys):
    namespace = after_audits(run, AUDITS[0])
    assert not namespace["result"].refuted
    assert namespace["result"].epsilon > 0
    assert "It cannot show that it is kept" in capsys.readouterr().out


@pytest.mark.slow
def test_the_audit_of_the_estimator_from_elsewhere_passes_and_its_broken_form_is_refuted(run, capsys):
    """A sound form is refuted with probability 1e-3 at most, as the confidence of an audit says."""
    namespace = after_audits(run, AUDITS[1])
    assert not namespace["outside"].refuted
    assert namespace["outside"].claim.epsilon == 1.0
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"^print\((?:outside|broken)\)  # (.*)$", PAGE.read_text(), re.M)
    assert len(printed) == len(said) == 2
    for text, comment in zip(printed, said, strict=True):
        assert re.fullmatch(".*".join(map(re.escape, comment.split("..."))), text), text


@pytest.mark.slow
def test_an_action_that_clips_is_audited_as_the_page_says(run):
    (call,) = re.findall(r"`(audit\(lambda X, y: fit\(np.clip.*?, claim=\(.*?\)\))`", PAGE.read_text())
    namespace = run[0] | {"audit": dpsk.audit, "fit": run[0]["fit"]}
    found = eval(call[:-1] + ", seconds=1)", namespace)
    assert not found.refuted
    assert found.claim == Claim(1.0, 1e-6)


def test_every_public_check_is_on_the_page():
    text = PAGE.read_text()
    checks = [name for name in testing.__all__ if name.startswith("check_")]
    assert len(checks) >= 8
    for name in checks:
        assert f"`{name}" in text, name
    assert f"{testing.ERROR_PROBABILITY:.0e}".replace("e-0", "e-") in text


def test_twins_are_public():
    assert dpsk.check_twins is testing.check_twins
    assert "check_twins" in dpsk.__all__
    assert "action(X, y)" in inspect.getdoc(dpsk.check_twins)
