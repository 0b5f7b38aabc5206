"""Sums over all alignments of a sequence with another one."""
