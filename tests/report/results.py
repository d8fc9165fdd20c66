"""Small results of the three workflows, made once, with scores as if rows had been held out."""

import dataclasses
import functools
import warnings
from unittest import mock

import numpy as np
import pandas as pd

from mgvm.inference import ConvergenceWarning
from mgvm.report import density_report, pca_report, regression_report
from mgvm.report.page import Picture
from mgvm.workflows import DensityOptions, PCAOptions, RegressionOptions, run_density, run_pca, run_regression
from mgvm.workflows.results import Calibration, Comparison, Score

MASSES = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
EVIL = '<b onclick="x">dir & Co</b>'


def scored(result):
    """The same with a comparison and a calibration."""
    measures = {"CRPS (degrees)": 9.5}
    scores = (
        Score("nearest <neighbours>", False, -0.4, 0.1, 0.0, 0.0, measures),
        Score("ours", True, -0.5, 0.1, 0.1, 0.2, measures),
        Score(
            "no inputs", False, -1.8, 0.1, 1.4, 0.2, converged=False, unconverged="20 steps were made; raise max_iter"
        ),
    )
    pit = np.random.default_rng(0).uniform(size=40)
    calibration = Calibration("distribution function at test angles", pit, MASSES, MASSES * 0.9)
    return dataclasses.replace(
        result, comparison=Comparison("5 folds were held out", 40, scores), calibration=calibration
    )


def quiet(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make()


@functools.cache
def regression(kind):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (65, 3))  # more than are averaged over hyper-parameters, which is slow
    frame = pd.DataFrame(X, columns=["depth", "lon", "lat"])
    frame["hour"] = 2.4 * X[:, 0]
    frame[EVIL] = (40.0 * X[:, 0] + rng.normal(0.0, 10.0, 65)) % 360.0
    frame["time"] = frame[EVIL] / 15.0
    if kind == "replicates":
        frame[["lon", "lat"]] = np.repeat(X[:5, 1:], 13, axis=0)
    asked = {
        "line": (EVIL, ["depth"], {"unit": "compass"}),
        "map": (EVIL, ["lon", "lat"], {"unit": "compass"}),
        "replicates": ("time", ["lon", "lat"], {"unit": "hours"}),
        "many": (EVIL, ["depth", "lon", "lat"], {"unit": "degrees", "circular_inputs": ["hour:hours"]}),
    }
    angle, inputs, options = asked[kind]
    chosen = RegressionOptions(angle, inputs, kernel="matern12", compare=False, **options)
    result = run_regression(frame, chosen, source="a <file>.csv")
    return result if kind == "map" else scored(result)


@functools.cache
def densities(size):
    rows = np.random.default_rng(0).vonmises(1.0, 4.0, (80, size))
    frame = pd.DataFrame(np.rad2deg(rows), columns=[f"phi{d}" for d in range(size)])
    frame.iloc[3, 0] = np.nan
    options = DensityOptions(list(frame.columns), components=1 if size > 2 else 2, compare=False)
    result = quiet(lambda: run_density(frame, options))
    return scored(result)


@functools.cache
def reduction(kind):
    rng = np.random.default_rng(0)
    phase = np.cumsum(rng.normal(0.0, 0.4, (60, 2)), axis=0)
    arm = np.column_stack([np.cos(phase[:, 0]), np.sin(phase[:, 0])])
    arm = np.column_stack([arm, arm + 0.5 * np.column_stack([np.cos(phase[:, 1]), np.sin(phase[:, 1])])])
    arm += 0.02 * rng.normal(size=arm.shape)
    frame = pd.DataFrame(arm, columns=["x1", "y1", "x2", "y2"])
    frame.iloc[5, 1] = np.nan
    if kind == "tree":
        return scored(quiet(lambda: run_pca(frame, PCAOptions(list(frame), 2, structure="tree", compare=False))))
    return scored(quiet(lambda: run_pca(frame, PCAOptions(["x1", "y1"], scale=True, compare=False))))


@functools.cache
def text_of(workflow, kind):
    """The page of a result, as text; its figures are drawn upon but not rendered, which takes most of the time."""
    makers = {"regression": (regression_report, regression), "density": (density_report, densities)}
    report, result = makers.get(workflow, (pca_report, reduction))
    with mock.patch("mgvm.report.page.embed", return_value=Picture("data:,", 10, 10)):
        return report(result(kind)).html()
