"""Coordinate ascent on the mean-field free energy, accelerated, many columns at once.

A sweep may start from any vector of numbers in the place of the moments, since it makes every factor anew: Anderson's
extrapolation is fed to the next sweep, and what comes out is a product law with a free energy of its own. It is kept
only if that did not fall; otherwise the column goes back and takes a plain sweep, which cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._anderson import Anderson
from mgvm.inference._mean_field_newton import newton_step
from mgvm.inference._mean_field_sweeps import State, Sweeper

_PLAIN = 4  # sweeps before acceleration
_NEWTON = 10  # sweeps after which Newton steps take the place of Anderson's
_NEWTON_MANY = 24  # the same with more than _FEW columns, where Newton's loops cost more than theirs
_FEW = 8
_EFFORT = 500
_IDLE = 6  # sweeps without a gain beyond rounding after which a column has settled, at an optimum that is flat
_WINDOW = 8
_WINDOW_LARGE = 5  # above _LARGE numbers a column, where the history fills the memory
_LARGE = 500_000
_SAME = 1e-3  # moments nearer than this belong to starts that run into one another
_ROUNDING = 1e-14
_SHRINK = 0.8  # share of columns still moving below which the others are taken out


@dataclass
class Outcome:
    """Where each column ended: moments and first natural parameters (D, 2, n), free energy, and how."""

    m: FloatArray
    first: FloatArray
    energy: FloatArray
    converged: np.ndarray
    merged: np.ndarray  # stopped because another start of the same law had come to the same place
    sweeps: np.ndarray
    trace: FloatArray  # (sweeps, n); a column's last value is repeated
    interrupted: bool


class Ascent:
    """One run over all columns; `law` tells which columns are starts of the same law."""

    def __init__(self, sweeper: Sweeper, state: State, law: np.ndarray, tolerance: float) -> None:
        self.sweeper, self.state, self.tolerance = sweeper, state, tolerance
        self.law, self.columns = law, np.arange(law.size)
        self.energy = np.full(law.size, -np.inf)
        self.kept_pack, self.kept_first = np.zeros((0, 0)), np.zeros((0, 0))
        self.idle = np.zeros(law.size, dtype=int)  # sweeps without a gain beyond rounding, nor a smaller step
        self.least = np.full(law.size, np.inf)
        self.length = np.ones(law.size)  # share of a Newton step
        self.extrapolated = np.zeros(law.size, dtype=bool)
        self.history: Anderson | None = None
        self.effort = 10  # iterations of conjugate gradients
        self.traces: list[tuple[np.ndarray, FloatArray]] = []
        count, shape = law.size, state.a.shape
        self.out = Outcome(
            np.zeros(shape), np.zeros(shape), self.energy.copy(), np.zeros(count, dtype=bool),
            np.zeros(count, dtype=bool), np.zeros(count, dtype=int), np.zeros((0, count)), False,
        )  # fmt: skip

    def run(self, max_sweeps: int, report: Callable[[int, int], object] | None = None) -> Outcome:
        """Sweep until every column has settled; `report` gets (sweeps done, max_sweeps)."""
        sweep = 0
        try:
            while sweep < max_sweeps and self.columns.size:
                sweep += 1
                moving = self._iterate(sweep)
                if report is not None:
                    report(sweep, max_sweeps)
                self._retire(moving, sweep)
        except KeyboardInterrupt:
            self.out.interrupted = True
        self._write(np.arange(self.columns.size), sweep)
        self.out.trace = self._join_traces()
        return self.out

    def _iterate(self, sweep: int) -> np.ndarray:
        """One sweep of all columns and, past the first few, the next extrapolation; returns which still move."""
        state, rows = self.state, 2 * self.state.a.shape[0]
        before = state.pack[:rows].copy() if self.history is not None else state.pack
        energy = self.sweeper.sweep(state)
        # A gain is of second order in what is left to gain in the moments: below rounding of F nothing is told apart.
        slack = _ROUNDING * (state.a.shape[0] + np.abs(energy))
        fell = self.extrapolated & ~(energy >= self.energy - slack)
        self._go_back(fell)
        gain = np.where(fell, np.inf, energy - self.energy)
        self.energy = np.where(fell, self.energy, energy)
        self.traces.append((self.columns, self.energy))
        self.idle = np.where((gain > slack) | (state.moved < 0.5 * self.least), 0, self.idle + 1)
        self.least = np.where(self.idle == 0, state.moved, self.least)
        moving = (~(state.moved <= self.tolerance**2) & (self.idle < _IDLE)) | fell
        if sweep >= _PLAIN:
            self._keep()
            if moving.any():
                self._extrapolate(before, fell, sweep)
        return moving

    def _keep(self) -> None:
        """Remember where the columns are: Anderson's history refers to the array, so it is a new one."""
        self.kept_pack, self.kept_first = self.state.pack.copy(), self.state.first.copy()

    def _extrapolate(self, before: FloatArray, fell: np.ndarray, sweep: int) -> None:
        state, rows = self.state, 2 * self.state.a.shape[0]
        if self.sweeper.conditional and sweep > (_NEWTON if fell.size <= _FEW else _NEWTON_MANY):
            self.history = None
            self.length = np.where(fell, 0.25 * self.length, np.minimum(2.0 * self.length, 1.0))
            # Far from the optimum a rough step is as good; each one that was taken in full allows a finer next.
            self.effort = min(2 * self.effort if (self.length == 1.0).any() else self.effort, _EFFORT)
            state.pack += np.where(fell, 0.0, self.length) * newton_step(self.sweeper, state, self.effort)
            self.extrapolated = ~fell
        elif self.history is None:
            window = min(_WINDOW if rows <= _LARGE else _WINDOW_LARGE, rows)
            self.history = Anderson(window, rows, self.kept_pack)
        else:
            self.history.forget(fell)
            self.history.push(before, self.kept_pack, ~fell)
            state.pack[...], self.extrapolated = self.history.next_input()

    def _go_back(self, columns: np.ndarray) -> None:
        """Put columns where their last accepted sweep had left them."""
        if columns.any():
            self.state.pack[:, columns] = self.kept_pack[:, columns]
            self.state.first[..., columns] = self.kept_first[..., columns]

    def _retire(self, moving: np.ndarray, sweep: int) -> None:
        """Write down and take out columns that have settled or met another; in bulk, as copying costs too."""
        out, merged = self.out, np.zeros(moving.size, dtype=bool)
        settled = ~moving
        if self.columns.size > 1 and sweep >= _PLAIN and sweep & (sweep - 1) == 0:
            merged = self._meeting() & moving
        out.merged[self.columns[merged]] = True
        out.converged[self.columns[settled]] = True
        stop = settled | merged
        if stop.any() and (stop.all() or stop.mean() >= 1.0 - _SHRINK or merged.any()):
            self._write(np.flatnonzero(stop), sweep)
            out.energy[self.columns[merged]] = -np.inf  # what it would reach, the other one reaches
            keep = np.flatnonzero(~stop)
            self.state = self.state.take(keep)
            self.columns, self.law, self.energy = self.columns[keep], self.law[keep], self.energy[keep]
            for name in ("extrapolated", "length", "idle", "least"):
                setattr(self, name, getattr(self, name)[keep])
            if sweep >= _PLAIN:
                self.kept_pack, self.kept_first = self.kept_pack[:, keep], self.kept_first[..., keep]
            if self.history is not None:
                self.history.take(keep, self.kept_pack)

    def _meeting(self) -> np.ndarray:
        """Columns that run beside a better one of the same law."""
        drop = np.zeros(self.columns.size, dtype=bool)
        # The pack may hold extrapolations: compare where the columns really are.
        rows = 2 * self.state.a.shape[0]
        places = self.kept_pack[:rows]
        for lag in range(1, self.columns.size):
            same = np.flatnonzero(self.law[lag:] == self.law[:-lag])
            if same.size == 0:
                break
            near = np.abs(places[:, same + lag] - places[:, same]).max(axis=0) < _SAME
            left, right = same[near], same[near] + lag
            worse = np.where(self.energy[left] >= self.energy[right], right, left)
            better = left + right - worse
            drop[worse[~drop[better]]] = True
        return drop

    def _write(self, which: np.ndarray, sweep: int) -> None:
        """Write down where some columns are."""
        if which.size == 0:
            return
        columns, shape = self.columns[which], self.state.a.shape
        kept = self.kept_pack.size > 0
        place, first = (self.kept_pack, self.kept_first) if kept else (self.state.pack, self.state.first)
        m = place[: 2 * shape[0]].reshape(shape)
        self.out.m[..., columns], self.out.first[..., columns] = m[..., which], first[..., which]
        self.out.energy[columns], self.out.sweeps[columns] = self.energy[which], sweep

    def _join_traces(self) -> FloatArray:
        trace = np.empty((len(self.traces), self.out.energy.size))
        last = np.full(self.out.energy.size, np.nan)
        for row, (columns, energy) in zip(trace, self.traces, strict=True):
            last[columns] = energy
            row[:] = last
        return trace
