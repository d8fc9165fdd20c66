"""The command ``mgvm``: parse, call, print.

Exit codes: 0 done; 1 failed; 2 the call was wrong or would have replaced a file; 3 the data cannot be used as
asked; 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import mgvm
from mgvm.cli import commands
from mgvm.tables.columns import RefusedError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mgvm",
        description="Circular statistics for tables with angles: predictions, densities, latent angles, reports.",
        epilog=commands.EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"mgvm {mgvm.__version__}")
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="command")
    for command in (commands.Regression(), commands.Density(), commands.PCA()):
        command.add(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows ``mgvm``; taken from the command line by default.

    Examples
    --------
    >>> from mgvm.cli import main
    >>> main([])  # doctest: +ELLIPSIS
    usage: mgvm ...
    0
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        options.run(options)
    except KeyboardInterrupt:
        return _fail("\nmgvm: stopped; nothing was left half written", 130)
    except RefusedError as error:
        return _fail(f"mgvm {options.command}: {error}", 2)
    except ValueError as error:
        return _fail(f"mgvm {options.command}: {error}", 3)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "mgvm":
            raise
        return _fail(f'mgvm: {package} is not installed; the command line needs: pip install "mgvm[cli]"', 1)
    except ImportError:
        raise
    except BrokenPipeError:
        # Whoever read our output has gone (`mgvm regress … | head`); keep Python from failing on the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"mgvm: {error}", 1)
    except MemoryError as error:
        why = str(error) or "there is not enough of it for so many rows and columns; take a part of them"
        return _fail(f"mgvm {options.command}: out of memory: {why}", 3)
    except Exception as error:
        if os.environ.get("MGVM_TRACEBACK"):
            raise
        what = f"an error of the program, not yours: {type(error).__name__}: {error}"
        report = "Please report it, with what is printed when MGVM_TRACEBACK=1 is set."
        return _fail(f"mgvm {options.command}: {what}\n{report}", 1)
    return 0


def _fail(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code
