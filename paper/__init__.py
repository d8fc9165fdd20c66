"""The tables and figures of the paper, measured again: ``make paper``."""
