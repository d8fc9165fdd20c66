"""One thread for linear algebra on small matrices.

Fits here make thousands of products and factorisations of small matrices, on which the threads of a BLAS gain nothing:
they wait for each other by spinning, and beside another busy process a fit takes many times its CPU time. So fits and
predictions run under `single_thread`, entered once around each, not in its loops.

Whoever has chosen a number of threads keeps it: by a variable of the environment (`OMP_NUM_THREADS` and the like), or
by `threadpoolctl.threadpool_limits` with fewer threads than there are CPUs.
"""

from __future__ import annotations

import os
import threading
from contextlib import ContextDecorator
from functools import cache
from types import TracebackType
from typing import Any

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class _SingleThread(ContextDecorator):
    """A context, or a decorator of functions, in which BLAS and OpenMP have one thread; may be entered repeatedly.

    The limit belongs to the process: the first to enter sets it and the last to leave lifts it, whichever threads of
    Python they are in.
    """

    def __init__(self) -> None:
        self._lock, self._entered, self._limit = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if self._entered == 0 and not has_chosen_threads():
                self._limit = _controller().limit(limits=1)
            self._entered += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


single_thread = _SingleThread()


def has_chosen_threads() -> bool:
    """Whether somebody has set the number of threads: left alone, libraries take one for every CPU.

    Some never take more than 32, however many CPUs there are.
    """
    if any(name in os.environ for name in VARIABLES):
        return True
    own = min(_cpus(), 32)
    return any(library.num_threads < own for library in _controller().lib_controllers)


def _cpus() -> int:
    """CPUs that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


@cache
def _controller() -> Any:
    """Handles on the libraries' threads; to look for these takes milliseconds, to use them microseconds."""
    import scipy.linalg  # noqa: F401  (it has a BLAS of its own, which must be there to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
