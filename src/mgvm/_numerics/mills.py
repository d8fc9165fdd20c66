"""Mills' ratio for compiled loops: branch-free, so that LLVM turns it into vector instructions."""

from __future__ import annotations

from mgvm._numerics.compiler import inner

# mpmath.chebyfit of (1 + u) m(u) in t = (u - 5)/(u + 5) on [-1, 1], by powers of t: error 2.7e-17.
_C0, _C1, _C2, _C3 = 1.1568486282918946, -0.2294875382521129, 0.07778159886873764, 0.02507217930161715
_C4, _C5, _C6, _C7 = -0.06617760077909461, 0.06150504584074597, -0.03802659218586716, 0.016348231274349995
_C8, _C9, _C10, _C11 = -0.0042012903289861386, 1.9530682704042314e-05, 0.00045704392266072, -0.00013437445842160464
_C12, _C13, _C14 = -2.4805835828998953e-05, 2.2710081536644496e-05, -1.7633721137504215e-07
_C15, _C16, _C17 = -3.2780889332747656e-06, 3.2054886338682205e-07, 4.92889412763629e-07
_C18, _C19, _C20 = -6.589393318333421e-08, -7.821049220473805e-08, 9.094218432472913e-09
_C21, _C22, _C23 = 1.1281645525139734e-08, -7.077031841982677e-10, -9.99802240829343e-10


@inner(forceinline=True, fastmath={"contract"})
def mills_ratio(u: float) -> float:
    """m(u) = ∫₀^∞ exp(-ut - t²/2) dt = √(2π) e^{u²/2} Φ(-u) for u >= 0, to a few units in the last place."""
    t = (u - 5.0) / (u + 5.0)
    t2 = t * t
    even = _C14 + t2 * (_C16 + t2 * (_C18 + t2 * (_C20 + t2 * _C22)))
    even = _C6 + t2 * (_C8 + t2 * (_C10 + t2 * (_C12 + t2 * even)))
    even = _C0 + t2 * (_C2 + t2 * (_C4 + t2 * even))
    odd = _C15 + t2 * (_C17 + t2 * (_C19 + t2 * (_C21 + t2 * _C23)))
    odd = _C7 + t2 * (_C9 + t2 * (_C11 + t2 * (_C13 + t2 * odd)))
    odd = _C1 + t2 * (_C3 + t2 * (_C5 + t2 * odd))
    return (even + t * odd) / (1.0 + u)
