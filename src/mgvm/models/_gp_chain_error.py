"""What the exact chain says of inputs that are too close for its nodes."""

from __future__ import annotations


class ChainTooFineError(ValueError):
    """An exact chain would need too many nodes."""
