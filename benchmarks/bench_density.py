"""Claim: mixtures on the torus give better densities of protein angles than the alternatives do.

Backbones are of Top500, side chains of Top8000, both downloaded once. Held-out log-likelihood in nats per residue, its
standard error over rows, the spread over seeds, and paired differences to the first method. Kernels and neighbours
choose their settings by leave-one-out on training rows; sizes of mixtures are given below, with where they come from,
or chosen by every fit with `--choose`. Seeds draw other rows, or where all rows are taken start the fits elsewhere.
A run of all tasks writes the tables of docs/measured-density.md; `python docs/forest.py` draws its figure from them.
`--quick` takes few rows; `--cache folder` keeps what was measured, one file a fit, so that an interrupted run goes on
where it ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import protein
from density_baselines import SHARPNESS, KernelDensity, NeighbourDensity, without_inputs
from scipy.special import logsumexp
from timing import keep, table

from mgvm.inference.result import ConvergenceWarning
from mgvm.mixture import TorusMixture
from paper.measured import read

FITS = 2  # whose densities are averaged
# Rows of training and test; None: all.
TASKS = {"backbone": (10_000, 10_000), "cys": (None, None), "his": (10_000, 4_000), "lys": (10_000, 4_000)}
QUICK = (1_500, 1_000)
# Components. Those of wrapped normals are what held-out training rows of similar residues asked for, among up to 600;
# ours are no more than they asked for. `--choose` lets every fit choose its own, which takes hours.
SIZES = {
    "mgvm": {"backbone": 12},
    "directed": {"cys": 30, "his": 100, "lys": 100},
    "von_mises": {"backbone": 60, "cys": 100},
    "wrapped_normal": {"backbone": 93, "cys": 139, "his": 210, "lys": 298},
}
TITLES = {
    ("backbone", "joint"): "Backbone (phi, psi)",
    ("cys", "joint"): "Cysteine (phi, psi, chi1)",
    ("cys", "conditional"): "Cysteine chi1 given (phi, psi)",
    ("his", "joint"): "Histidine, four angles",
    ("lys", "joint"): "Lysine, six angles",
}


def joint_and_conditional(logpdf, test):
    """Log densities of rows, and of their last angle given the others."""
    lacking = test.copy()
    lacking[:, -1] = np.nan
    joint = logpdf(test)
    return {"joint": joint, "conditional": joint - logpdf(lacking)}


def averaged(fits, test, name):
    """The first fit, and the mean density of all of them (which is a mixture as well): {name: (scores, chosen)}."""

    def mean(count):
        def logpdf(x):
            return logsumexp([fit.score_samples(x) for fit in fits[:count]], axis=0) - np.log(count)

        return joint_and_conditional(logpdf, test), f"K = {sum(fit.n_components_ for fit in fits[:count])}"

    return {f"mean of {len(fits)} {name} mixtures": mean(len(fits)), f"{name} mixture": mean(1)}


def mixtures(train, test, seed, size, component):
    """Mixtures of a family, of a given size or of the one that held-out training rows ask for ("auto")."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            TorusMixture(size, component=component, tol=1e-4, random_state=FITS * seed + i).fit(train)
            for i in range(FITS)
        ]
    return averaged(fits, test, component.replace("_", " "))


def kernels(train, test, seed):
    """Kernel densities; one with bandwidths of its own for the conditional distribution of three angles."""
    out = {}
    for name, sharpness in (("kernels, adaptive", SHARPNESS), ("kernels, one bandwidth an angle", (0.0,))):
        fit = KernelDensity(train, sharpness=sharpness, seed=seed)
        scores, chosen = {"joint": fit.logpdf(test)}, f"alpha = {fit.alpha:g}"
        if train.shape[1] == 3:
            fit = KernelDensity(train, given=2, sharpness=sharpness, seed=seed)
            scores["conditional"] = fit.logpdf(test)
            chosen += f", {fit.alpha:g} conditional"
        out[name] = scores, chosen
    return out


def predictors(train, test, seed):
    """The last angle by its nearest neighbours, and without looking at the others."""
    fit = NeighbourDensity(train)
    return {
        "nearest neighbours": ({"conditional": fit.logpdf(test)}, f"k = {fit.count}, kappa = {fit.kappa:.0f}"),
        "GvM without inputs": ({"conditional": without_inputs(train, test)}, "order 3"),
    }


def methods(task):
    """Groups of methods for a task, ours first."""
    families = [family for family, sizes in SIZES.items() if task in sizes]
    listed = {family: partial(_sized, family, task) for family in sorted(families, key=OURS_FIRST.index)}
    listed["kernels"] = kernels
    return listed | ({"predictors": predictors} if task == "cys" else {})


OURS_FIRST = ("mgvm", "directed", "wrapped_normal", "von_mises")
CHOOSE = False  # set by --choose
LARGEST = 20  # components of a quick run


def _sized(family, task, train, test, seed):
    size = "auto" if CHOOSE else min(SIZES[family][task], LARGEST if len(train) <= QUICK[0] else 10**6)
    return mixtures(train, test, seed, size, family)


def measured(task, group, seed, sizes, cache):
    """{method: scores, what was chosen, CPU seconds of the group} from the cache if they are there."""
    if task == "cys" and group in ("kernels", "predictors"):
        seed = 0  # the split is given and nothing in them is random
    key = json.dumps([task, group, seed, FITS, CHOOSE, *sizes])
    file = cache / f"{task}-{group}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"
    if not file.exists():
        train, test = protein.rows(task, seed, *sizes)
        start = time.process_time()
        found = methods(task)[group](train, test, seed)
        seconds = time.process_time() - start
        entries = {
            name: {
                "chosen": chosen,
                "seconds": seconds,
                "scores": {kind: [round(float(v), 5) for v in values] for kind, values in scores.items()},
            }
            for name, (scores, chosen) in found.items()
        }
        waiting = file.with_suffix(".part")
        waiting.write_text(json.dumps(entries))
        waiting.replace(file)
    return json.loads(file.read_text())


def error(values):
    """Standard error of a mean over rows, averaged over seeds: seeds share most rows, so that more do not shrink it."""
    return float(np.mean([np.std(v, ddof=1) / np.sqrt(len(v)) for v in values]))


def report(task, kind, results):
    """Print one table; the first method that has such scores is ours. Returned as the pages show it."""
    rows, reference = [], None
    for method, runs in results.items():
        if any(kind not in run["scores"] for run in runs):
            continue
        scores = [np.array(run["scores"][kind]) for run in runs]
        means = [v.mean() for v in scores]
        reference = reference or scores
        apart = [v - r for v, r in zip(scores, reference, strict=True)]
        against = "" if scores is reference else f"{np.mean([d.mean() for d in apart]):+.4f} ± {error(apart):.4f}"
        rows.append(
            [
                method,
                f"{np.mean(means):.4f} ± {error(scores):.4f}",
                f"{np.std(means, ddof=1):.4f}" if len(means) > 1 else "",
                against,
                "; ".join(dict.fromkeys(run["chosen"] for run in runs)),
                float(np.mean([run["seconds"] for run in runs])),
            ]
        )
    header = ["method", "held-out log-likelihood", "over seeds", "less the first", "chosen", "CPU s, group"]
    table(TITLES[task, kind], header, rows)
    shown = [[row[0], *(row[i].replace("-", "−") for i in (1, 3)), row[4]] for row in rows]
    return ["method", "log-likelihood", "difference to the first", "chosen"], shown


def summarize():
    """The methods that several of the kept tables have, one column a data set, for the page beside other packages."""
    found = {}
    for task, kind in TITLES:
        if kind == "joint":
            rows = read("density", f"{task}_{kind}")["rows"]
            found[task] = {_OURS if i == 0 else row[0]: row[1].split(" ±")[0] for i, row in enumerate(rows)}
    names = [name for name in found["backbone"] if name.startswith((_OURS, "mean of", "kernels"))]
    header = ["held-out log-likelihood, nats a residue", *(TITLES[task, "joint"] for task in found)]
    rows = [[name, *(scores.get(name, "") for scores in found.values())] for name in names]
    keep("density", "benchmarks/bench_density.py", summary=(header, rows))


_OURS = "mgvm, mean of two mixtures"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and components, two seeds: minutes")
    parser.add_argument("--cache", type=Path, help="folder that keeps what was measured")
    parser.add_argument("--choose", action="store_true", help="every mixture chooses its size: hours")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs=2, metavar=("TRAIN", "TEST"), help="at most so many, for every task")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--groups", nargs="+", help="only these: mgvm, directed, wrapped_normal, von_mises, kernels")
    options = parser.parse_args()
    global CHOOSE
    CHOOSE = options.choose
    cache = options.cache or Path(tempfile.mkdtemp(prefix="mgvm-density-"))
    cache.mkdir(parents=True, exist_ok=True)
    print(f"fits are kept in {cache}", flush=True)
    protein.download("bench_density.py", options.tasks)
    for task in options.tasks:
        sizes = tuple(options.rows) if options.rows else QUICK if options.quick else TASKS[task]
        wanted = [group for group in methods(task) if not options.groups or group in options.groups]
        seeds = range(min(options.seeds, 2) if options.quick else options.seeds)
        runs = {group: [measured(task, group, seed, sizes, cache) for seed in seeds] for group in wanted}
        results = {name: [run[name] for run in found] for found in runs.values() for name in found[0]}
        for name, kind in TITLES:
            if name == task:
                entry = report(task, kind, results)
                if not (options.quick or options.rows or options.groups):
                    keep("density", "benchmarks/bench_density.py", **{f"{task}_{kind}": entry})
                    summarize()


if __name__ == "__main__":
    main()
