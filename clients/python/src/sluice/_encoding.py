"""The encoding of columns that `sluice model add --encoding` reads, and its effect on the cells of a CSV file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Keys of a code map that `sluice model add` reads as a missing value.
MISSING_KEYS = frozenset(["", "nan", "NaN", "None", "null", "<NA>"])
TRUE_TEXTS = frozenset(["true", "True", "TRUE", "1"])
FALSE_TEXTS = frozenset(["false", "False", "FALSE", "0"])
#: Words that `sluice model add` reads as booleans if a column has exactly two of them as categories.
BOOLEAN_WORDS = frozenset("true True TRUE yes Yes YES y Y t T false False FALSE no No NO n N f F".split())
#: A category that no file has, from the private use area of Unicode.
SPARE_CATEGORY = "\ue000"


@dataclass
class Rule:
    """How the cells of a column become numbers.

    `kind`: number, boolean or category. `codes`: text of a category → number. `missing`, `unseen`: the number for a
    missing value and for an unknown category (NaN is allowed), or `"error"` to reject the row.
    """

    name: str
    kind: str
    missing: float | str = math.nan
    codes: dict[str, float] = field(default_factory=dict)
    unseen: float | str = "error"

    def encode(self, cell: str) -> float | None:
        """The number for a cell; None: the row is rejected."""
        if cell == "":
            return None if isinstance(self.missing, str) else self.missing
        if self.kind == "number":
            return float(cell)
        if self.kind == "boolean":
            false_as, true_as = self.codes.get("False", 0.0), self.codes.get("True", 1.0)
            return true_as if cell in TRUE_TEXTS else false_as if cell in FALSE_TEXTS else None
        code = self.codes.get(cell)
        if code is not None:
            return code
        return None if isinstance(self.unseen, str) else self.unseen


def encoding_file(
    rules: Sequence[Rule],
    inputs: Any = None,
    order: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """The content of the encoding file.

    `inputs`: graph input → its columns. `order`: columns of a single matrix. `classes`: in the order of the scores;
    written only if `model add` would assume another order, or none.
    """
    content: dict[str, Any] = {}
    if classes is not None and not are_sorted(classes):
        content["classes"] = list(classes)
    if inputs is not None:
        content["inputs"] = inputs
    if order is not None:
        content["order"] = list(order)
    content["codes"] = {rule.name: codes_of(rule) for rule in rules if rule.codes}
    content["missing"] = {rule.name: plain(rule.missing) for rule in rules}
    content["unseen"] = {rule.name: plain(rule.unseen) for rule in rules if rule.kind == "category"}
    return content


def are_sorted(classes: Sequence[Any]) -> bool:
    """Whether classes have the same order as numbers, as texts, and in this list."""
    texts = [str(c) for c in classes]
    try:
        numbers = [float(t) for t in texts]
    except ValueError:
        numbers = []
    return texts == sorted(texts) and numbers == sorted(numbers)


def coded(rules: Sequence[Rule]) -> frozenset[str]:
    """The columns whose values have codes."""
    return frozenset(rule.name for rule in rules if rule.codes)


def codes_of(rule: Rule) -> dict[str, float]:
    """The codes for the file. Two texts such as `yes` and `no` get a spare category, so that they stay texts."""
    if rule.kind != "category" or len(rule.codes) != 2 or not BOOLEAN_WORDS.issuperset(rule.codes):
        return rule.codes
    spare = next(iter(rule.codes.values())) if isinstance(rule.unseen, str) or math.isnan(rule.unseen) else rule.unseen
    return {**rule.codes, SPARE_CATEGORY: spare}


def plain(value: float | str) -> float | int | str:
    """A number for JSON; NaN as text."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "nan"
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)


def encode_cells(rules: Sequence[Rule], cells: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Encodes rows of cells (one per rule). Returns float64 [rows, rules], and which rows are accepted, bool [rows]."""
    matrix = np.empty((len(cells), len(rules)))
    accepted = np.ones(len(cells), dtype=bool)
    for r, row in enumerate(cells):
        for c, rule in enumerate(rules):
            value = rule.encode(row[c])
            if value is None:
                accepted[r] = False
                value = math.nan
            matrix[r, c] = value
    return matrix, accepted
