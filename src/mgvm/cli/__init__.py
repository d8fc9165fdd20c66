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
from mgvm.cli import density, pca, regression

EXIT_CODES = (
    "exit codes: 0 done; 1 failed; 2 the call was wrong or would have replaced a file; 3 the data cannot be used as "
    "asked; 130 stopped with Ctrl-C"
)
_COMMANDS = (regression, density, pca)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mgvm",
        description="Circular statistics for tables with angles: predictions, densities, latent angles, reports.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"mgvm {mgvm.__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="command")
    for module in _COMMANDS:
        module.add(commands).set_defaults(run=module.run)
    for command in commands.choices.values():
        command.epilog = "\n".join(filter(None, [command.epilog, EXIT_CODES]))
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
        return _run(options)
    except KeyboardInterrupt:
        print("\nmgvm: stopped; nothing was left half written", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "mgvm":
            raise
        print(f'mgvm: {package} is not installed; the command line needs: pip install "mgvm[cli]"', file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has gone (`mgvm regress … | head`); keep Python from failing on the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"mgvm: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    from mgvm.tables.columns import RefusedError

    try:
        return int(options.run(options))
    except RefusedError as error:
        print(f"mgvm {options.command}: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"mgvm {options.command}: {error}", file=sys.stderr)
        return 3
    except (OSError, ImportError):
        raise
    except MemoryError as error:
        why = str(error) or "there is not enough of it for so many rows and columns; take a part of them"
        print(f"mgvm {options.command}: out of memory: {why}", file=sys.stderr)
        return 3
    except Exception as error:
        if os.environ.get("MGVM_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}"
        print(f"mgvm {options.command}: an error of the program, not yours: {what}", file=sys.stderr)
        print("Please report it, with what is printed when MGVM_TRACEBACK=1 is set.", file=sys.stderr)
        return 1
