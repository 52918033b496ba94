"""Patients with many visits: protect the patient, not the visit.

A clinic asks which visits will be missed. Patients have between one visit and sixty. A fit that protects single visits
says little about a patient who has sixty. So the unit here is the patient: in the fit, in cross-validation, in the
scores and in the ledger, which refuses everything else. The last fit shows what it would cost to cover the patient
with sixty visits by a fit for visits: prints all scores, and draws them if a file name is given.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from dpsk import DPLogisticRegression, PrivacyLedger, private_score
from dpsk.privacy.conversions import gaussian_epsilon, gaussian_mu

rng = np.random.default_rng(0)
n_patients, most = 8_000, 60
counts = np.minimum(1 + rng.geometric(0.2, n_patients) * rng.integers(1, 3, n_patients), most)
counts[0] = most
patient = np.repeat(np.arange(n_patients), counts)
n = len(patient)
habit = rng.normal(0, 1, n_patients)[patient]  # patients differ, and are like themselves
visits = pd.DataFrame(
    {
        "patient": np.char.add("P", patient.astype(str)),
        "age": rng.uniform(18, 90, n_patients)[patient].round(),
        "distance": rng.lognormal(1.5, 0.7, n_patients)[patient],
        "days_ahead": rng.lognormal(2.5, 1.0, n),
        "monday": rng.random(n) < 0.2,
        "reminded": rng.random(n) < 0.6,
    }
)
risk = (
    0.5 * np.log(visits["days_ahead"]) - 0.03 * (visits["age"] - 50) + 0.8 * visits["monday"] - 0.9 * visits["reminded"]
)
missed = (risk + habit - 0.8 + rng.logistic(size=n) > 0).to_numpy()

EPSILON, DELTA = 0.3, 1e-6
SMALL = gaussian_epsilon(DELTA, gaussian_mu(EPSILON, DELTA) / most)  # with it any `most` rows together have EPSILON
BOUNDS = {"age": (0, 120), "distance": (0, 30), "days_ahead": (0, 100), "monday": (0, 1), "reminded": (0, 1)}


def cross_validated(name: str, ledger: PrivacyLedger, **parameters: object) -> list[float]:
    """Print and return the scores of three folds; shuffled folds do not depend on how many visits a patient has."""
    scores = []
    for train, test in GroupKFold(3, shuffle=True, random_state=0).split(visits, groups=visits["patient"]):
        model = DPLogisticRegression(delta=DELTA, bounds=BOUNDS, ledger=ledger, **parameters)
        table = visits if model.group_column else visits.drop(columns="patient")
        model.fit(table.iloc[train], missed[train])
        score = private_score(model, table.iloc[test], missed[test], epsilon=0.5, ledger=ledger)
        scores.append(score.accuracy)
    print(f"{name:42s} {np.mean(scores):.3f}  (folds {', '.join(f'{score:.3f}' for score in scores)})")
    return scores


folder = Path(tempfile.mkdtemp())
print(f"{n} visits of {n_patients} patients, {most} at most; {missed.mean():.0%} are missed\n")
patients = PrivacyLedger(folder / "patients.db", epsilon=4.0, delta=1e-5, unit="patient")
rows = PrivacyLedger(folder / "visits.db", epsilon=4.0, delta=1e-5)
scores = {
    "each patient": cross_validated(
        f"epsilon {EPSILON} for each patient", patients, epsilon=EPSILON, group_column="patient"
    ),
    "each visit": cross_validated(f"epsilon {EPSILON} for each visit", rows, epsilon=EPSILON),
    f"{most} visits together": cross_validated(
        f"epsilon {EPSILON} for any {most} visits together", rows, epsilon=SMALL
    ),
}
try:
    DPLogisticRegression(epsilon=EPSILON, ledger=patients).fit(visits.drop(columns="patient"), missed)
except ValueError as refusal:
    print(f"\nThe ledger of patients refuses a fit that protects visits:\n  {refusal}")
print(f"\n{patients.statement()}")

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, folds in enumerate(scores.values()):
        axes.bar(place, np.mean(folds), color="C0" if place == 0 else "0.7")
        axes.plot([place] * len(folds), folds, "k.", alpha=0.6)
    axes.axhline(max(missed.mean(), 1 - missed.mean()), color="0.3", linestyle="--", linewidth=1)
    axes.text(2.45, max(missed.mean(), 1 - missed.mean()), "one answer for all", ha="right", va="bottom", color="0.3")
    axes.set_xticks(range(3), [f"protects {what}" for what in scores])
    axes.set(
        ylim=(0.5, None),
        ylabel="accuracy (first bar:\neach patient counts once)",
        title=f"Missed visits, epsilon = {EPSILON}",
    )
    figure.savefig(sys.argv[1], dpi=150)
