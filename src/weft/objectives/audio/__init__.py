"""Objectives of sound."""
