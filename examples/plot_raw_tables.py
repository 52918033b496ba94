"""A private model of a raw table: strings, dates, skewed numbers and missing entries as they are.

A clinic asks who will not come to an appointment. One line fits the model. It spends a part of its budget on finding
where numbers lie and which departments there are, so nothing is prepared beforehand. The model is a sum of one curve or
bar chart per column: prints the most important ones, and draws them if a file name is given.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from dpsk import DPTabularClassifier, EffectsDisplay

rng = np.random.default_rng(0)
n = 30_000
visits = pd.DataFrame(
    {
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 730, n), unit="D"),
        "department": rng.choice(["surgery", "eyes", "skin", "heart"], n, p=[0.3, 0.3, 0.25, 0.15]),
        "age": rng.gamma(9, 5.5, n).clip(0, 100).round(),
        "days_ahead": rng.lognormal(2.5, 1.0, n).round(),
        "missed_before": rng.poisson(0.5, n),
        "insurance": rng.choice(["public", "private", None], n, p=[0.7, 0.2, 0.1]),
        "distance_km": np.where(rng.random(n) < 0.15, np.nan, rng.lognormal(1.8, 0.8, n)),
    }
)
likely = (
    0.9 * np.log1p(visits["missed_before"])
    + 0.35 * np.log1p(visits["days_ahead"])
    - 1.2 * np.exp(-(((visits["age"] - 60) / 18) ** 2))
    + 0.5 * (visits["department"] == "skin")
    + 0.6 * visits["insurance"].isna()
    + 0.4 * visits["distance_km"].isna()
    + 0.5 * (visits["day"].dt.day_of_week == 0)
    - 2.0
)
outcome = np.where(likely + rng.logistic(size=n) > 0, "missed", "came")
train_X, test_X, train_y, test_y = train_test_split(visits, outcome, random_state=0)

model = DPTabularClassifier(epsilon=1.0).fit(train_X, train_y)

print(model.privacy_spent_.statement())
print(f"AUC on other visits: {roc_auc_score(test_y, model.predict_proba(test_X)[:, 1]):.3f}")
print("A visit with nothing but missing entries:", model.predict_proba(visits[:1].mask(visits[:1].notna()))[0].round(2))
for effect in model.effects_.by_importance()[:5]:
    print(f"{effect.name}: {effect.importance:.2f}")

if len(sys.argv) > 1:
    EffectsDisplay.from_estimator(model).figure_.savefig(sys.argv[1])
