"""Worked examples and the paper re-measured, one file a table or figure."""
