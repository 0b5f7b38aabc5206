"""The cheapest way to give every row of a table a column of its own (Kuhn, 1955; in the form of Jonker & Volgenant, 1987)."""

from __future__ import annotations

import numpy as np


def assignment(cost: np.ndarray) -> np.ndarray:
    """cost (N, M) with N <= M -> the column of each row (N,), of which the sum of costs is least. It takes N^2 M steps.

    Each row in turn finds the shortest path to a free column, over columns whose rows make room; what rows and columns have paid so far
    makes all lengths positive, so that the path is found as Dijkstra does.
    """
    rows, columns = cost.shape
    if rows > columns:
        raise ValueError(f"{rows} rows cannot have a column each of {columns}")
    paid_row, paid_column = np.zeros(rows + 1), np.zeros(columns + 1)
    owner = np.full(columns + 1, -1)  # the last column is where each new row begins
    for row in range(rows):
        owner[columns], at = row, columns
        length, before = np.full(columns, np.inf), np.full(columns, columns)
        done = np.zeros(columns + 1, dtype=bool)
        while owner[at] != -1:
            done[at] = True
            free = ~done[:columns]
            through = cost[owner[at]] - paid_row[owner[at]] - paid_column[:columns]
            shorter = free & (through < length)
            length[shorter], before[shorter] = through[shorter], at
            following = int(np.where(free, length, np.inf).argmin())
            step = length[following]
            paid_row[owner[done]] += step
            paid_column[done] -= step
            length[free] -= step
            at = following
        while at != columns:
            owner[at], at = owner[before[at]], int(before[at])
    found = np.full(rows, -1)
    found[owner[:columns][owner[:columns] >= 0]] = np.flatnonzero(owner[:columns] >= 0)
    return found
