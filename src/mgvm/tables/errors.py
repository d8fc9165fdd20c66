"""What can be wrong with a table."""

from __future__ import annotations


class TableError(ValueError):
    """A file or its columns cannot be used as asked; the message says why and what to do."""


class RefusedError(Exception):
    """Writing would destroy something, or cannot be done where it was asked for."""
