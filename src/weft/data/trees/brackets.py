"""Constituency trees as the Penn Treebank writes them, in brackets: (S (NP deep learning) (VP is (ADJP very powerful))).

A leaf is a word, with its tag (DT the) or, where there is none, by itself. A word without a tag is written (XX dogs), as (NP dogs) would be
a word with the tag NP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.errors import DataError

TOKEN = re.compile(r"\(|\)|[^\s()]+")
EMPTY = "-NONE-"
"""The tag of what is not said, such as traces."""
UNTAGGED = "XX"
"""Stands for the tag of a word that has none."""
ROOTS = ("", "TOP", "ROOT", "S1", "VROOT")
"""Labels that treebanks put around a whole tree, and that say nothing."""


@dataclass(frozen=True)
class Leaf:
    word: str
    tag: str = ""


@dataclass(frozen=True)
class Tree:
    label: str
    children: tuple[Tree | Leaf, ...]

    def leaves(self) -> Iterator[Leaf]:
        """From left to right, without recursion: a tree may be as deep as its sentence is long."""
        waiting: list[Tree | Leaf] = [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Leaf):
                yield node
            else:
                waiting += reversed(node.children)

    def words(self) -> list[str]:
        return [leaf.word for leaf in self.leaves()]


def parse_all(text: str, where: str = "the text") -> list[tuple[Tree, int]]:
    """Every tree of a text, as it stands there, with the number of its line; what is no tree is a DataError that names the line."""
    found: list[tuple[Tree, int]] = []
    open_nodes: list[tuple[str, list[Tree | Leaf], int]] = []
    labelled = True  # whether what follows a bracket was already seen: a label, or another bracket
    line, read = 1, 0
    for match in TOKEN.finditer(text):
        line, read = line + text.count("\n", read, match.start()), match.start()
        token = match.group()
        if token == "(":
            open_nodes.append(("", [], line))
            labelled = False
        elif token == ")":
            if not open_nodes:
                raise DataError(f"{where}:{line}: a bracket closes that was not opened")
            label, children, begun = open_nodes.pop()
            labelled = True
            if not children:
                raise DataError(f"{where}:{begun}: the brackets of {label or 'a constituent'} hold no word")
            node = constituent(label, children)
            if open_nodes:
                open_nodes[-1][1].append(node)
            else:
                found.append((Tree("", (node,)) if isinstance(node, Leaf) else node, begun))
        elif not open_nodes:
            raise DataError(f"{where}:{line}: {token[:40]!r} stands outside of all brackets")
        elif not labelled and not open_nodes[-1][1]:
            open_nodes[-1] = (token, [], open_nodes[-1][2])
            labelled = True
        else:
            open_nodes[-1][1].append(Leaf(token))
    if open_nodes:
        raise DataError(f"{where}:{open_nodes[0][2]}: a tree begins here whose brackets are not closed")
    return found


def constituent(label: str, children: list[Tree | Leaf]) -> Tree | Leaf:
    """(DT the) is a leaf; whatever else stands in brackets is a constituent."""
    if len(children) == 1 and isinstance(only := children[0], Leaf) and not only.tag and label not in ROOTS:
        return Leaf(only.word, label)
    return Tree(label, tuple(Leaf(child.word) if isinstance(child, Leaf) and child.tag == UNTAGGED else child for child in children))


def parse(text: str) -> Tree:
    """The only tree of a text."""
    trees = parse_all(text)
    if len(trees) != 1:
        raise DataError(f"{text[:40]!r} holds {len(trees)} trees, where one is wanted")
    return trees[0][0]


def bare_label(label: str) -> str:
    """NP-SBJ-1 and NP=2 -> NP: the category alone. -LRB- and the like begin with a hyphen, and stay."""
    return label if label.startswith("-") else re.split(r"[-=|]", label)[0]


def cleaned(tree: Tree) -> Tree | None:
    """As parsers learn it: without what is not said and what is left empty by that, labels without functions, no root that says nothing,
    and no constituent that only repeats the one around it. None where nothing is left."""
    kept: list[Tree | Leaf] = []
    for child in tree.children:
        if isinstance(child, Leaf):
            kept += [Leaf(child.word, bare_label(child.tag))] * (child.tag != EMPTY)
        elif (inner := cleaned(child)) is not None:
            kept.append(inner)
    if not kept:
        return None
    label = bare_label(tree.label)
    if len(kept) == 1 and isinstance(only := kept[0], Tree) and (label in ROOTS or only.label == label):
        return only
    return Tree(label if label not in ROOTS else "S", tuple(kept))


def written(tree: Tree | Leaf) -> str:
    """A tree in brackets, on one line."""
    if isinstance(tree, Leaf):
        return f"({tree.tag or UNTAGGED} {tree.word})"
    return f"({tree.label} {' '.join(map(written, tree.children))})"


def right_branching(leaves: list[Leaf], label: str = "S", inner: str = "NP") -> Tree:
    """The tree in which all that follows a word is a constituent: what English looks like where nothing is known of it."""
    node = Tree(inner, tuple(leaves[-1:]))
    for leaf in reversed(leaves[:-1]):
        node = Tree(inner, (leaf, node))
    return Tree(label, node.children)
