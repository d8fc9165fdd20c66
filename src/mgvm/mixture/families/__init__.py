"""Families of mixture components."""
