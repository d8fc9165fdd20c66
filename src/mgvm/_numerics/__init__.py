"""Compiled functions of plain arrays: nothing here knows a class."""
