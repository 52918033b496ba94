"""Steps in front of a private classifier: what each learns from rows, and a pipeline that refuses those that do.

A bank keeps the age, the income and the channel of its customers. In a plain pipeline the classifier says that it is
private, and the scaler in front of it holds exact means. The private pipeline takes a public list and a fixed function.
What a cross-validation costs is known beforehand, and the model leaves as plain scikit-learn. Draws the accuracy if a
file name is given.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline as make_plain_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from dpsk import DPLogisticRegression, check_pipeline, make_pipeline, privacy_cost, private_cross_validate

rng = np.random.default_rng(0)
n = 8_000
frame = pd.DataFrame({"age": rng.integers(18, 90, n), "income": rng.lognormal(10, 0.7, n)})
frame["channel"] = rng.choice(["branch", "phone", "web"], n)
y = frame.income / 30_000 + (frame.channel == "web") + rng.logistic(0, 0.5, n) > 1.6

model = DPLogisticRegression(epsilon=1.0)
print(check_pipeline(make_plain_pipeline(StandardScaler(), model)), "\n")

channels = OneHotEncoder(categories=[["branch", "phone", "web"]], handle_unknown="ignore", sparse_output=False)
columns = ColumnTransformer(
    [("channel", channels, ["channel"]), ("income", FunctionTransformer(np.log1p), ["income"])],
    remainder="passthrough",
    sparse_threshold=0,
)
pipeline = make_pipeline(columns, model)
print(pipeline.check(), "\n")
print(pipeline.fit(frame, y).statement(), "\n")
print(privacy_cost(cross_validate, pipeline, frame, y, cv=5, n_classes=2), "\n")

judged = private_cross_validate(pipeline, frame, y, epsilon=0.5, cv=5)
print(judged.statement(), "\n")

plain = pipeline.to_sklearn()
print("labels that differ after export:", int((plain.predict(frame) != pipeline.predict(frame)).sum()))

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 2.5), layout="constrained")
    axes = figure.subplots()
    low, high = judged.interval
    axes.barh(["majority class", "private pipeline"], [max(y.mean(), 1 - y.mean()), judged.accuracy])
    axes.plot([low, high], [1, 1], color="black", linewidth=3, label=f"{judged.confidence:.0%} interval")
    axes.set(xlabel="accuracy on held-out rows", title="A cross-validation that is paid for", xlim=(0.4, 1))
    axes.legend()
    figure.savefig(sys.argv[1])
