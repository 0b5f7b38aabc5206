"""Trees as sequences of tokens (Vinyals et al., 2015, "Grammar as a foreign language", arXiv:1412.7449), and back.

(S (NP deep learning) (VP is (ADJP very powerful))) is "(S (NP XX XX )NP (VP XX (ADJP XX XX )ADJP )VP )S": a constituent begins and ends
with its label, and a word is XX, or its tag. The words themselves are those of the sentence, in order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.data.trees.brackets import UNTAGGED as WORD
from weft.data.trees.brackets import Leaf, Tree


def linearise(tree: Tree, tags: bool = False) -> list[str]:
    """A tree -> its tokens. tags: a word with a tag is its tag, and not XX."""
    tokens = [f"({tree.label}"]
    for child in tree.children:
        if isinstance(child, Leaf):
            tokens.append(child.tag if tags and child.tag else WORD)
        else:
            tokens += linearise(child, tags)
    return [*tokens, f"){tree.label}"]


def delinearise(tokens: Sequence[str], words: Sequence[str]) -> Tree | None:
    """Tokens and the words of the sentence -> the tree; None where the brackets are not those of one tree, a constituent is empty, or
    there are not as many words."""
    nodes: list[tuple[str, list[Tree | Leaf]]] = []
    used = 0
    for place, token in enumerate(tokens):
        if token.startswith("(") and len(token) > 1:
            nodes.append((token[1:], []))
        elif token.startswith(")") and len(token) > 1:
            if not nodes or nodes[-1][0] != token[1:] or not nodes[-1][1]:
                return None
            label, children = nodes.pop()
            made = Tree(label, tuple(children))
            if not nodes:
                return made if place == len(tokens) - 1 and used == len(words) else None
            nodes[-1][1].append(made)
        elif not nodes or used == len(words):
            return None
        else:
            nodes[-1][1].append(Leaf(words[used], "" if token == WORD else token))
            used += 1
    return None


def repaired(tokens: Sequence[str], words: Sequence[str], root: str = "S") -> Tree:
    """The tree that is nearest to tokens which may be none: what closes nothing is left out, what is open is closed at the end, words that
    are missing are put under the outermost constituent, and those that are too many are left out."""
    nodes: list[tuple[str, list[Tree | Leaf]]] = [(root, [])]
    used = 0
    for token in tokens:
        if token.startswith("(") and len(token) > 1:
            nodes.append((token[1:], []))
        elif token == ")":
            if len(nodes) > 1:
                close(nodes)
        elif token.startswith(")"):
            if token[1:] in [label for label, _ in nodes[1:]]:
                while close(nodes) != token[1:]:
                    pass
        elif used < len(words):
            nodes[-1][1].append(Leaf(words[used], "" if token == WORD else token))
            used += 1
    while len(nodes) > 1:
        close(nodes)
    children, rest = nodes[0][1], tuple(Leaf(word) for word in words[used:])
    if len(children) == 1 and isinstance(only := children[0], Tree):
        return Tree(only.label, only.children + rest)
    return Tree(root, (*children, *rest))


def close(nodes: list[tuple[str, list[Tree | Leaf]]]) -> str:
    """End the innermost constituent -> its label; one without words is left out."""
    label, children = nodes.pop()
    if children:
        nodes[-1][1].append(Tree(label, tuple(children)))
    return label


def rendered(tokens: Sequence[str], words: Sequence[str]) -> str:
    """Tokens and the words of the sentence as brackets, whether or not they make a tree, so that those of more tokens only go on: an end
    that is not that of the innermost constituent keeps its label, and a word that the sentence does not have is <unk>."""
    parts: list[str] = []
    labels: list[str] = []
    used = 0
    for token in tokens:
        if token.startswith("(") and len(token) > 1:
            parts.append(f" {token}")
            labels.append(token[1:])
        elif token.startswith(")") and len(token) > 1:
            parts.append(")" if labels[-1:] == [token[1:]] else token)
            labels = labels[:-1]
        else:
            parts.append(f" ({token} {words[used] if used < len(words) else '<unk>'})")
            used += 1
    return "".join(parts).removeprefix(" ")


def tokens_of(text: str) -> list[str]:
    """The tokens of brackets as `rendered` has them; of an end that keeps its innermost label, ")" alone."""
    return [match.group(1) or match.group() for match in RENDERED.finditer(text)]


RENDERED = re.compile(r"\((\S+) [^\s()]+\)|\([^\s()]+|\)[^\s()]*")
