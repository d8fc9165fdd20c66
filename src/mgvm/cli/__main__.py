"""``python -m mgvm.cli``."""

from __future__ import annotations

import sys

from mgvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
