"""Patients with many visits: protect the patient, not the visit.

A clinic asks which visits will be missed. The unit is the patient: in fits, folds, scores and the ledger, which refuses
everything else. Two fits for visits stand beside that. The last covers 60 visits together, which is what it takes to
cover the patient who has as many. Prints all scores, and draws them if a file name is given.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold

from dpsk import DPLogisticRegression, PrivacyLedger, private_score
from dpsk.privacy.conversions import gaussian_epsilon, gaussian_mu

rng, n_patients, most, epsilon, delta = np.random.default_rng(0), 8_000, 60, 0.3, 1e-6
patient = np.repeat(np.arange(n_patients), np.minimum(rng.geometric(0.12, n_patients), most))
n = len(patient)
frame = {"age": rng.uniform(18, 90, n_patients)[patient], "days_ahead": rng.lognormal(2.5, 1.0, n)}
frame |= {"monday": rng.random(n) < 0.2, "reminded": rng.random(n) < 0.6}
visits = pd.DataFrame(frame).assign(patient=np.char.add("P", patient.astype(str)))
risk = 0.5 * np.log(visits.days_ahead) - 0.03 * (visits.age - 50) + 0.8 * visits.monday - 0.9 * visits.reminded
habit = rng.normal(size=n_patients)[patient]  # patients are like themselves
missed = (risk + habit - 0.8 + rng.logistic(size=n) > 0).to_numpy()
bounds = {"age": (0, 120), "days_ahead": (0, 100), "monday": (0, 1), "reminded": (0, 1)}
print(f"{n} visits of {n_patients} patients; {missed.mean():.0%} are missed. Accuracy at epsilon {epsilon} for")


def cross_validated(name, table, ledger, **parameters):
    """Return the private scores of three folds; shuffled, they do not depend on how many visits anybody has."""
    scores = []
    for train, test in GroupKFold(3, shuffle=True, random_state=0).split(visits, groups=visits.patient):
        model = DPLogisticRegression(delta=delta, bounds=bounds, ledger=ledger, **parameters)
        model.fit(table.iloc[train], missed[train])
        scores.append(private_score(model, table.iloc[test], missed[test], epsilon=0.5, ledger=ledger).accuracy)
    print(f"  {name:24s}{np.mean(scores):.3f}")
    return scores


plain = visits.drop(columns="patient")
patients = PrivacyLedger(Path(tempfile.mkdtemp()) / "patients.db", epsilon=4.0, delta=1e-5, unit="patient")
small = gaussian_epsilon(delta, gaussian_mu(epsilon, delta) / most)  # then any 60 rows together have epsilon
scores = {"each patient": cross_validated("each patient", visits, patients, epsilon=epsilon, group_column="patient")}
for name, of_visit in (("each visit", epsilon), (f"{most} visits together", small)):
    scores[name] = cross_validated(name, plain, None, epsilon=of_visit)
try:
    DPLogisticRegression(epsilon=epsilon, ledger=patients).fit(plain, missed)
except ValueError as refusal:
    print(f"\nThe ledger of patients refuses a fit for visits:\n  {refusal}\n\n{patients.statement()}")

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axes.bar(scores.keys(), [np.mean(folds) for folds in scores.values()], color=["C0", "0.7", "0.7"])
    axes.set(ylim=(0.5, None), xlabel="protected", ylabel="accuracy", title=f"Missed visits, epsilon = {epsilon}")
    figure.savefig(sys.argv[1], dpi=150)
