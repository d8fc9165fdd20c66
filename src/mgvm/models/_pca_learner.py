"""How circular PCA learns: short runs from several starts, EM from the best, a joint prior, variational Bayes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.models import _pca_fit, _pca_start
from mgvm.models._pca_fit import Fit
from mgvm.models._pca_kernel import kernel_prior, mixture_prior
from mgvm.models._pca_laws import Engine
from mgvm.models._pca_maximisation import Structure
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_reader import Reader
from mgvm.models._pca_rows import InMemory, Rows, Source
from mgvm.models._pca_settings import COMPONENTS, engine_of, structure_of
from mgvm.models._pca_vb_fit import Search, grown

_SHORT = 20  # EM iterations of a start before the best is continued


class Learner:
    """The options of a CircularPCA, checked, the rows, and some of them in memory; `engine` is that of the last fit."""

    engine: Engine

    def __init__(self, model: Any, source: Source, Y: FloatArray, rng: np.random.Generator) -> None:
        self._source, self._some, self._rng = source, Y, rng
        self._prior, self._inference, self._offset = model.prior_, model.inference, bool(model.fit_offset)
        self._starts = check.integer(model.n_init, "n_init", minimum=1)
        self._most = check.integer(model.max_iter, "max_iter", minimum=1)
        self._tolerance = check.single_positive(model.tol, "tol")
        self._angles, self._verbose = int(model.n_components), int(model.verbose)
        if self._prior in COMPONENTS:
            asked = COMPONENTS[self._prior] if model.n_prior_components is None else model.n_prior_components
            self._components = check.integer(asked, "n_prior_components", minimum=1)
            share = model.background
            self._background = check.single_fraction(share, "background") if share != 0 else 0.0

    def point(self, structure: Structure, start: FloatArray | None, size: int) -> Fit:
        """Maximum likelihood from W of a start, or from several."""
        self._rows_of(size)
        weights = [start] if start is not None else _pca_start.candidates(self._some, size, self._starts, self._rng)
        found = self._best([_pca_start.started(one, self._some) for one in weights], structure)
        if self._prior in COMPONENTS and not found.interrupted:
            found = self._with_joint_prior(found, structure)
        return found

    def variational(self, structure: Structure, sizes: range) -> tuple[Fit, FloatArray]:
        """Variational Bayes from point estimates, and the precisions of the entries of the angles that are left."""

        def point(size: int) -> tuple[Fit, Structure]:
            kind = structure if size == sizes[-1] else structure_of(None, self._some, size, offset=self._offset)[0]
            return self.point(kind, None, size), kind

        report = _pca_fit.reporter(self._most, self._verbose)
        search = Search(self._rows_of, self._prior != "uniform", self._most, self._tolerance, report)
        found, relevance = grown(self._some, point, sizes, self._angles, search, self._rng)
        self._rows_of(found.parameters.size)
        return found, relevance

    def _rows_of(self, size: int) -> Rows:
        """All rows, with the engine for so many angles."""
        self.engine = engine_of(self._inference, size, self._rng)
        return self._source.rows(self.engine)

    def _best(self, starts: list[Parameters], structure: Structure) -> Fit:
        """The best of short runs on some rows, continued on all."""
        if len(starts) > 1:
            rows = InMemory(self._some, self.engine)
            short: list[Fit] = []
            while len(short) < len(starts) and not (short and short[-1].interrupted):
                short.append(self._em(rows, starts[len(short)], structure, min(_SHORT, self._most)))
            best = max(short, key=lambda fit: fit.log_likelihood)
            if short[-1].interrupted:
                return best._replace(converged=False, interrupted=True)
            starts = [best.parameters]
        return self._em(self._source.rows(self.engine), starts[0], structure, self._most)

    def _em(self, rows: Rows, start: Parameters, structure: Structure, most: int) -> Fit:
        return _pca_fit.fit(
            rows,
            start,
            structure,
            learn_prior=self._prior != "uniform",
            max_iter=most,
            tol=self._tolerance,
            report=_pca_fit.reporter(most, self._verbose),
        )

    def _with_joint_prior(self, found: Fit, structure: Structure) -> Fit:
        """EM again with a mixture whose components begin at the angles of some rows."""
        modes = Reader(found.parameters, self.engine).moments(self._some).mode
        begin = kernel_prior if self._prior == "kernel" else mixture_prior
        prior = begin(self._some, found.parameters, self.engine, modes, self._components, self._background)
        start = found.parameters._replace(prior=prior)
        return self._em(self._source.rows(self.engine), start, structure, self._most)
