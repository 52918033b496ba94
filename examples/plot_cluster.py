"""Fit where the rows are: two worker processes keep their blocks of rows, and only sums come back.

A worker makes each block, as if it read the block from a file. During the second fit one worker is killed. Another
worker then makes its blocks again, and the model is the same to the last bit. Draws the coefficients if a file name is
given.
"""

import os
import signal
import sys
import warnings
from threading import Timer

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from dpsk import DPGradientDescentClassifier, NotPrivateWarning

WEIGHTS = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
ROWS, BLOCKS = 5_000, 4


def read(number):
    return np.random.default_rng(number).normal(size=(ROWS, len(WEIGHTS)))


def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        blocks = [da.from_delayed(dask.delayed(read)(k), (ROWS, len(WEIGHTS)), float) for k in range(BLOCKS)]
        X = da.concatenate(blocks)
        X, y = dask.persist(X, (X @ WEIGHTS > 0).astype(int))  # read once, and again only where a worker is lost

        # DPLogisticRegression does the same in more steps. The seed is for the comparison; it makes the fit not private
        warnings.simplefilter("ignore", NotPrivateWarning)
        model = DPGradientDescentClassifier(epsilon=1.0, bounds=(-4, 4), steps=40, random_state=0)
        coef = model.fit(X, y).coef_
        processes = list(client.run(os.getpid).values())
        print(f"{X.shape[0]:,} rows in {BLOCKS} blocks in the processes {processes}")

        Timer(0.5, os.kill, (processes[0], signal.SIGKILL)).start()
        again = model.fit(X, y).coef_
        print("the same model after one of them was killed:", np.array_equal(coef, again))

        predicted = model.predict(X)  # a Dask array: nothing is computed yet
        print("accuracy:", round(float((predicted == y).mean().compute()), 2))

    if len(sys.argv) > 1:
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        axes = figure.subplots()
        axes.bar(range(len(WEIGHTS)), coef.ravel())
        axes.set(xlabel="column", ylabel="coefficient")
        figure.savefig(sys.argv[1])


if __name__ == "__main__":  # worker processes import this file
    main()
