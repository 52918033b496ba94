"""Digits as images: fixed features in front of a private classifier, which learn nothing and so cost no privacy.

A scattering transform (``scattering.py`` beside this file) makes of each image what a linear model can use. A pipeline
asks whether a step learns from rows, and takes this one by its promise. Images come in chunks, as if read from files:
coefficients are made while the rows are read. Prints what the features gain, and draws it if a file name is given.
"""

import sys

import numpy as np
from scattering import Scattering
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from dpsk import Chunks, DPLogisticRegression, make_pipeline

pixels, digit = load_digits(return_X_y=True)
train_X, test_X, train_y, test_y = train_test_split(pixels / 16, digit, random_state=0)
step = Scattering(image_shape=(8, 8), scales=1, windows=(4, 4))

print(make_pipeline(step, DPLogisticRegression()).check(), "\n")


def read():
    yield from zip(np.array_split(train_X, 5), np.array_split(train_y, 5), strict=True)  # a file each, as it were


accuracies = {"pixels": [], "scattering": []}
epsilons = [1.0, 2.0, 4.0]
for epsilon in epsilons:
    model = DPLogisticRegression(epsilon=epsilon, delta=1e-5)
    accuracies["pixels"].append(model.fit(train_X, train_y).score(test_X, test_y))
    pipeline = make_pipeline(step, model).fit(Chunks(read))
    accuracies["scattering"].append(pipeline.score(test_X, test_y))
    print(f"epsilon {epsilon}: " + ", ".join(f"{name} {found[-1]:.3f}" for name, found in accuracies.items()))
print(f"\n{pipeline.statement()}")

if len(sys.argv) > 1:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.6, 1.8])
    left.imshow(pixels[3].reshape(8, 8), cmap="gray_r")
    channels = np.pad(
        step.transform(pixels[3:4] / 16).reshape(7, 4, 4), ((0, 1), (0, 1), (0, 1)), constant_values=np.nan
    )
    middle.imshow(np.hstack([np.vstack(channels[k : k + 2]) for k in range(0, 8, 2)]), cmap="RdBu_r", vmin=-3, vmax=3)
    for axes, title in ((left, "an image"), (middle, "averages, and six orientations")):
        axes.set(title=title, xticks=[], yticks=[])
    for name, found in accuracies.items():
        right.plot(epsilons, found, marker="o", label=name)
    right.set(
        xscale="log", xlabel="epsilon (delta = 1e-5)", ylabel="accuracy on other images", title="the default, untuned"
    )
    right.set_xticks(epsilons, epsilons)
    right.minorticks_off()
    right.legend()
    figure.savefig(sys.argv[1])
