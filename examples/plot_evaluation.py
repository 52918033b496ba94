"""The report that a reviewer needs: how good is a private model of a rare class, and how sure is that?

A screening finds few who are ill. Accuracy says little here, because calling everybody healthy is right for nearly all.
One release from held-out rows gives recall, precision, curves, calibration and a threshold for stated costs, each with
its interval. Prints the report beside what no noise would have given, and draws it if a file name is given.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn import metrics

from dpsk import DPLogisticRegression, PrivacyLedger, private_evaluation

rng, n, missed, alarm = np.random.default_rng(0), 50_000, 20.0, 1.0  # what an ill person missed, and an alarm, cost
X = rng.normal(size=(n, 6))
y = np.where(X @ [1.4, -1.1, 0.8, 0.5, 0.0, 0.0] - 5.0 + rng.logistic(size=n) > 0, "ill", "healthy")
old, new = slice(0, n // 2), slice(n // 2, n)

# training and held-out rows are different people: each has the whole budget to itself
path, parts = Path(tempfile.mkdtemp()) / "screening.db", ["training", "held-out"]
ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-6, disjoint=parts)
model = DPLogisticRegression(epsilon=1.0, delta=1e-6, ledger=ledger.on("training")).fit(X[old], y[old])
held_out = ledger.on("held-out")
evaluation = private_evaluation(model, X[new], y[new], epsilon=1.0, positive="ill", ledger=held_out)
best = evaluation.best_threshold(false_positive=alarm, false_negative=missed)
print(f"{evaluation.statement()}\n{held_out.statement()}\n")

ill, p = y[new] == "ill", model.predict_proba(X[new])[:, 1]  # the last column of the table is not private
table = {"AUC": (evaluation.auc, metrics.roc_auc_score(ill, p))}
table["Brier score"] = evaluation.brier, metrics.brier_score_loss(ill, p)
for t in (0.5, best.threshold):
    table[f"recall at {t:.3f}"] = evaluation.recall(t), (p >= t)[ill].mean()
    table[f"precision at {t:.3f}"] = evaluation.precision(t), ill[p >= t].mean()
found = p >= best.threshold
table[f"cost at {best.threshold:.3f}"] = best.cost, np.where(ill, missed * ~found, alarm * found).mean()
print("                    value   population       these rows       without noise")
for name, (number, plain) in table.items():
    ends = "   ".join(f"{low:.3f} to {high:.3f}" for low, high in (number.interval, number.interval_on_rows))
    print(f"{name:19s} {number.value:.3f}   {ends}   {plain:.3f}")

rarest, most = evaluation.base_rate.interval
without = min(missed * rarest, alarm * (1 - most))  # the least that nobody, or everybody, called ill may cost
verdict = "The model is worth its use" if best.cost.interval[1] < without else "No use of the model is shown"
print(f"\n{verdict}: above {best.threshold:.3f} it costs {best.cost} a person, and no model at least {without:.3f}.")
print("(Two intervals of 95 % confidence hold together with 90 % or more.)")

if len(sys.argv) > 1:
    from matplotlib import pyplot as plt

    import dpsk

    figure, axes = plt.subplots(2, 2, figsize=(10, 9.6), layout="constrained")
    dpsk.PrivateRocCurveDisplay.from_evaluation(evaluation, ax=axes[0, 0])
    dpsk.PrivatePrecisionRecallDisplay.from_evaluation(evaluation, ax=axes[0, 1])
    dpsk.PrivateCalibrationDisplay.from_evaluation(evaluation, log_odds=True, ax=axes[1, 0])
    dpsk.PrivateConfusionMatrixDisplay.from_evaluation(evaluation, threshold=best.threshold, ax=axes[1, 1])
    figure.savefig(sys.argv[1], dpi=150)
