"""Sweeps of coordinate ascent on the mean-field free energy, over all angles of many columns at once.

A column is one start of one law; all columns share b, P and Q. Every sweep is Gauss-Seidel: an angle sees the newest
moments of all others, so the free energy cannot fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mgvm._numerics.mean_field import (
    Coupling,
    apply_coupling,
    gather_fields,
    greedy_colours,
    push_change,
    sparse_energies,
    store_moments,
    update_block,
)
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, SparseCoupling, dense_coupling, sparse_coupling
from mgvm.inference._mean_field_factors import Step, gvm_step

_BLOCK = 64  # angles whose change is carried to all others at once
_CHUNK = 2048  # rows a batch kernel gets at a time: they stay in the cache
_FEW = 24  # columns up to which a dense block runs in one compiled loop
_REFRESH = 16  # sweeps after which a field kept by differences is computed afresh: extrapolation feeds its rounding
_SMALL = 256  # angles up to which that is done in every sweep


@dataclass
class State:
    """Columns under way: `pack` holds the moments m (2D rows) and, for dense laws, the field C m (2D rows)."""

    a: FloatArray  # (D, 2, n)
    pack: FloatArray  # (2D or 4D, n)
    first: FloatArray  # (D, 2, n), the first natural parameter of each factor
    local: FloatArray  # (D, n), entropy and harmonics from the second on
    moved: FloatArray  # (n,), largest squared change of the last sweep, in units of the variance

    @property
    def m(self) -> FloatArray:
        """Moments (D, 2, n), a view."""
        return self.pack[: 2 * self.a.shape[0]].reshape(self.a.shape)

    @property
    def field(self) -> FloatArray:
        """The field C m (D, 2, n) of a dense law, a view."""
        return self.pack[2 * self.a.shape[0] :].reshape(self.a.shape)

    def take(self, columns: np.ndarray) -> State:
        """Some columns, copied."""
        a, pack, first, local = (
            np.ascontiguousarray(part[..., columns]) for part in (self.a, self.pack, self.first, self.local)
        )
        return State(a, pack, first, local, self.moved[columns])


class Sweeper(Protocol):
    """A law's couplings, ready to sweep."""

    @property
    def b(self) -> ComplexArray:
        """Harmonics from the second on, (T - 1, D)."""

    @property
    def coupling(self) -> Coupling | None:
        """The coupling of a sparse law."""

    @property
    def conditional(self) -> bool:
        """Whether a factor is the whole conditional, so that m answers to the field by its covariance."""

    def state(self, a: FloatArray, m: FloatArray) -> State:
        """A state with given moments."""

    def sweep(self, state: State) -> FloatArray:
        """Update every factor once; returns the free energies (n,)."""

    def multiply(self, m: FloatArray) -> FloatArray:
        """C m for m (D, 2, n)."""


def _new_state(a: FloatArray, pack: FloatArray) -> State:
    count = a.shape[2]
    return State(a, pack, np.full(a.shape, np.nan), np.zeros((a.shape[0], count)), np.zeros(count))


def harmonics(law: Natural) -> ComplexArray:
    """b as a writable array of at least one row, so that order 1 runs as order 2."""
    return np.array(law.b) if law.order > 1 else np.zeros((1, law.dimension), dtype=complex)


class SparseSweeper:
    """Angles of one colour are not coupled to each other and are updated together."""

    def __init__(self, coupling: SparseCoupling, b: ComplexArray, step: Step) -> None:
        self.coupling: Coupling = (coupling.indptr, coupling.indices, coupling.blocks)
        self.b, self._step = b, step
        self.conditional = step is gvm_step
        colours = greedy_colours(coupling.indptr, coupling.indices)
        order = np.argsort(colours, kind="stable")
        self._colours = np.split(order, np.cumsum(np.bincount(colours))[:-1])

    def state(self, a: FloatArray, m: FloatArray) -> State:
        return _new_state(a, m.reshape(2 * a.shape[0], -1).copy())

    def multiply(self, m: FloatArray) -> FloatArray:
        return np.asarray(apply_coupling(self.coupling, m))

    def sweep(self, state: State) -> FloatArray:
        m, count = state.m, state.a.shape[2]
        state.moved[:] = 0.0
        parts = (m, state.first, state.local, state.moved)
        rows_at_once = max(1, _CHUNK // count)
        buffer = np.empty((rows_at_once * count, 1 + self.b.shape[0]), dtype=complex)
        for colour in self._colours:
            for begin in range(0, colour.size, rows_at_once):
                rows = colour[begin : begin + rows_at_once]
                eta = buffer[: rows.size * count]
                gather_fields(rows, self.coupling, state.a, self.b, m, eta)
                store_moments(rows, *self._step(eta, _first_of(state, rows, self._step)), parts)
        return np.asarray(sparse_energies(self.coupling, state.a, m, state.local))


def _first_of(state: State, rows: np.ndarray, step: Step) -> ComplexArray:
    """First natural parameters of some factors as they are, for steps that need them."""
    if step is gvm_step:
        return np.empty(0, dtype=complex)
    first = state.first[rows]
    return (first[:, 0] + 1j * first[:, 1]).ravel()


class DenseSweeper:
    """Angles one after another, in blocks; the change of a block reaches the field of all angles at once.

    The field C m is so always up to date, and with it the free energy, though C is read only once a sweep.
    """

    def __init__(self, C: FloatArray, b: ComplexArray, step: Step) -> None:
        self.C = C
        self.coupling: None = None
        self.b, self._step = b, step
        self.conditional = step is gvm_step
        self._sweeps = 0

    def state(self, a: FloatArray, m: FloatArray) -> State:
        return _new_state(
            a, np.concatenate([m.reshape(2 * a.shape[0], -1), self.multiply(m).reshape(2 * a.shape[0], -1)])
        )

    def multiply(self, m: FloatArray) -> FloatArray:
        return (self.C @ m.reshape(self.C.shape[0], -1)).reshape(m.shape)

    def sweep(self, state: State) -> FloatArray:
        size, _, count = state.a.shape
        state.moved[:] = 0.0
        self._sweeps += 1
        if size <= _SMALL or self._sweeps % _REFRESH == 0:
            state.field[...] = self.multiply(state.m)
        field = np.ascontiguousarray(state.pack[2 * size :].T)
        few = count <= _FEW
        block = self._compiled_block if few and self.conditional and self.b.shape[0] == 1 else self._block
        for begin in range(0, size, _BLOCK):
            change = np.empty((min(_BLOCK, size - begin), 2, count))
            block(begin, state, field, change)
            flat = change.reshape(-1, count)
            if few:
                push_change(self.C, 2 * begin, flat, field)
            else:
                field += flat.T @ self.C[2 * begin : 2 * begin + flat.shape[0]]
        state.pack[2 * size :] = field.T
        return np.asarray(np.einsum("dki,dki->i", state.m, state.a + 0.5 * state.field) + state.local.sum(axis=0))

    def _compiled_block(self, begin: int, state: State, field: FloatArray, change: FloatArray) -> None:
        parts = (state.m, state.first, state.local, state.moved)
        update_block(self.C, begin, (state.a, field, self.b[0]), parts, change)

    def _block(self, begin: int, state: State, field: FloatArray, change: FloatArray) -> None:
        m, count = state.m, state.a.shape[2]
        parts = (m, state.first, state.local, state.moved)
        eta = np.empty((count, 1 + self.b.shape[0]), dtype=complex)
        for k in range(change.shape[0]):
            d = begin + k
            pull = state.a[d] + field[:, 2 * d : 2 * d + 2].T
            if k:
                pull += self.C[2 * d : 2 * d + 2, 2 * begin : 2 * d] @ change[:k].reshape(2 * k, count)
            eta[:, 0].real, eta[:, 0].imag = pull
            eta[:, 1:] = self.b[:, d]
            change[k] = -m[d]
            row = np.array([d])
            store_moments(row, *self._step(eta, _first_of(state, row, self._step)), parts)
            change[k] += m[d]


def sweeper(law: Natural, step: Step) -> Sweeper:
    """The sweeps that fit the law's storage."""
    b = harmonics(law)
    return SparseSweeper(sparse_coupling(law), b, step) if law.is_sparse else DenseSweeper(dense_coupling(law), b, step)
