"""Recipes on embedded data must reach their numbers: `python -m demos` runs a stated subset, `--all` every one."""
