"""Turns a fitted scikit-learn model into an ONNX file with the encoding of its columns, and compares both."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ._encoding import Rule, coded, encode_cells, encoding_file
from ._errors import CannotRegister, Problem, first_line
from ._estimator import (
    Conversion,
    append,
    convert,
    deviation,
    estimator_problems,
    scores_of,
    session_of,
    thresholds_of,
)
from ._frame import Column, as_files, cells_of, narrow_float, read_column
from ._graph import GraphBuilder, Source, Tensor, width_of
from ._probes import (
    SEED,
    boundary_frame,
    boundary_values,
    fullest_row,
    missing_value,
    sample_of,
    some_rows,
    unseen_value,
    with_value,
)
from ._steps import Carrier, class_of

#: Rows with the same missing or unknown value, and frames with several such values.
SPECIAL_ROWS = 40
COMBINATIONS = 12
#: Rows of each kind of probe that become part of the expected predictions.
EXPECTED_PROBES = 100


@dataclass
class Export:
    """The files of a registration. `columns`: the columns of the model. `cells` and `scores`: expected predictions."""

    file: str
    content: bytes
    columns: list[str]
    encoding: dict[str, Any]
    classes: list[Any] | None
    flags: frozenset[str] = frozenset()
    cells: list[list[str]] = field(default_factory=list)
    scores: np.ndarray = field(default_factory=lambda: np.empty((0, 1)))

    def files(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns of the model, as files have them."""
        return as_files(frame[self.columns], self.flags, self.encoding["codes"])


@dataclass
class Compared:
    """Applications with the predictions of the library. `texts`: the cells of the model's columns."""

    texts: list[list[str]]
    scores: np.ndarray


def frame_for(model: Any, X: pd.DataFrame) -> pd.DataFrame:
    """The columns of the frame that the model was fitted on, in their order. Raises CannotRegister."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        lost = [str(n) for n in names if n not in X.columns]
        if lost:
            raise CannotRegister([Problem("the frame", f"the model was fitted on columns that it lacks: {', '.join(lost)}", "Pass the frame that was passed to fit.")])  # fmt: skip
        return X[list(names)]
    width = getattr(model, "n_features_in_", len(X.columns))
    if width != len(X.columns):
        raise CannotRegister([Problem("the frame", f"it has {len(X.columns)} columns, but the model was fitted on {width}", "Pass the frame that was passed to fit.")])  # fmt: skip
    return X


def own_scores(scores: Callable[[pd.DataFrame], np.ndarray], frame: pd.DataFrame) -> np.ndarray:
    """The scores of the frame that was passed to fit. Raises CannotRegister if the model rejects it."""
    try:
        return scores(frame)
    except Exception as error:
        raise CannotRegister([Problem("the model", f"it fails on its own frame: {first_line(error)}", "Pass the fitted model and the frame that was passed to fit.")]) from error  # fmt: skip


def export_sklearn(model: Any, X: pd.DataFrame, tolerance: float, flags: frozenset[str] = frozenset()) -> Export:
    """Exports a fitted estimator or pipeline. Raises CannotRegister with every problem."""
    frame = frame_for(model, X)
    steps = list(model.steps) if class_of(model) == "Pipeline" else [("", model)]
    (last_name, estimator), before = steps[-1], steps[:-1]
    label = f"{last_name} ({class_of(estimator)})" if last_name else class_of(estimator)
    columns = {name: read_column(frame, name, flags) for name in frame.columns}
    problems = [] if isinstance(estimator, str) else estimator_problems(estimator, label)

    def walk(builder: GraphBuilder, earlier: Carrier | None) -> tuple[Carrier, list[Source | Tensor]]:
        carrier = Carrier(columns, builder, earlier)
        block = carrier.pipeline(before, [Source(n) for n in frame.columns], "")
        carrier.numeric(block, label)
        return carrier, block

    first, _ = walk(GraphBuilder(), None)
    if not (problems and not before):
        problems += first.problems
    if problems:
        raise CannotRegister(problems)
    used = {n: c for n, c in columns.items() if n in first.rules and isinstance(c, Column)}

    sample = sample_of(frame)
    expected = own_scores(lambda data: scores_of(model, data), sample)

    second, block = walk(GraphBuilder(), first)
    folded = export_folded(model, estimator, frame, block, second, sample, expected, used, tolerance, flags)
    if folded is not None:
        return folded
    probes = boundary_frames(sample, used, second.rules, block, estimator)
    all_features = np.vstack([features_of(before, part) for part in (sample, *probes)])
    if all_features.shape[1] != width_of(block):
        raise CannotRegister([Problem("the pipeline", f"its steps return {all_features.shape[1]} features, but their conversion returns {width_of(block)}", "Use the steps that docs/exporting.md lists.")])  # fmt: skip
    finite = np.isfinite(all_features).all(axis=1) | np.isnan(all_features).any(axis=1)
    all_features = all_features[finite]
    try:
        conversion = convert(
            estimator, all_features, scores_of(estimator, named(estimator, all_features)), label, tolerance
        )
    except ValueError as error:
        raise CannotRegister([Problem(f"estimator {label}", f"it fails on boundary values: {first_line(error)}", "Impute missing values in the pipeline.")]) from error  # fmt: skip
    if isinstance(conversion, Problem):
        raise CannotRegister([conversion])

    return finish(model, frame, sample, expected, probes, walk, first, conversion, label, used, tolerance, flags)


def export_folded(
    model: Any,
    estimator: Any,
    frame: pd.DataFrame,
    block: Any,
    carrier: Carrier,
    sample: pd.DataFrame,
    expected: np.ndarray,
    used: dict[str, Column],
    tolerance: float,
    flags: frozenset[str],
) -> Export | None:
    """The own file of LightGBM, XGBoost or CatBoost at the end of a pipeline, if an encoding expresses the other steps.

    None: the estimator is of another library, or the steps need a graph.
    """
    from ._native import checked, library_of, native_of

    library = library_of(estimator)
    if library is None:
        return None
    names = [part.column for part in block if isinstance(part, Source)]
    if len(names) != len(block) or len(set(names)) != len(names):
        if library == "catboost":
            raise CannotRegister([Problem(f"estimator {class_of(estimator)}", "it follows steps that an encoding cannot express", "Use only OrdinalEncoder, TargetEncoder, SimpleImputer and passthrough before CatBoost.")])  # fmt: skip
        return None
    native = native_of(estimator, library, None)
    if isinstance(native, list):
        raise CannotRegister(native)
    rules = [carrier.rules[n] for n in names]
    special = settle(model, frame, [used[n] for n in names], rules)
    cells = lambda f: cells_of(as_files(f[names], flags, coded(rules)))
    compared = [Compared(cells(sample), expected), *(Compared(cells(f), s) for f, s in special)]
    return checked(native, names, rules, compared, class_of(estimator), tolerance, flags)


def named(estimator: Any, features: np.ndarray) -> Any:
    """The features under the names that the estimator was fitted with."""
    names = getattr(estimator, "feature_names_in_", None)
    return features if names is None else pd.DataFrame(features, columns=list(names))


def features_of(before: Sequence[Any], frame: pd.DataFrame) -> np.ndarray:
    """The features that reach the last step, float64 [rows, features]."""
    data: Any = frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, step in before:
            if step is not None and not isinstance(step, str):
                data = step.transform(data)
    if hasattr(data, "toarray"):
        data = data.toarray()
    return np.asarray(data, dtype=np.float64)


def boundary_frames(
    sample: pd.DataFrame, used: dict[str, Column], rules: dict[str, Rule], block: Any, estimator: Any
) -> list[pd.DataFrame]:
    """Rows of the sample with boundary values, per number column."""
    position: dict[int, str] = {}
    at = 0
    for part in block:
        if isinstance(part, Source):
            position[at] = part.column
            at += 1
        else:
            at += part.width
    thresholds: dict[str, list[float]] = {}
    for feature, threshold in thresholds_of(estimator):
        if feature in position:
            thresholds.setdefault(position[feature], []).append(threshold)
    frames = []
    for name, column in used.items():
        if rules[name].kind == "number" and column.kind == "number":
            values = boundary_values(column, thresholds.get(name, []))
            if values:
                frames.append(boundary_frame(sample, column, values))
    return frames


def finish(
    model: Any,
    frame: pd.DataFrame,
    sample: pd.DataFrame,
    expected: np.ndarray,
    probes: Sequence[pd.DataFrame],
    walk: Any,
    first: Carrier,
    conversion: Conversion,
    label: str,
    used: dict[str, Column],
    tolerance: float,
    flags: frozenset[str],
) -> Export:
    """Builds the graph, settles the rules for missing and unknown values, and compares every probe."""
    trial, block = walk(GraphBuilder(), first)
    trial.builder.tensor(block, conversion.dtype)
    # The shortest text of a float32 is another number as a float64: the graph rounds it first, as the frame did.
    rounded = {name for name, column in used.items() if narrow_float(column.values.dtype) is np.float32}
    carrier, block = walk(GraphBuilder(frozenset(trial.builder.wants_double - rounded)), first)
    if carrier.problems:
        raise CannotRegister(carrier.problems)
    graph = append(carrier.builder, conversion, block)
    names = [n for n in frame.columns if n in carrier.builder.columns]
    rules = [carrier.rules[n] for n in names]
    special = settle(model, frame, [used[n] for n in names], rules)
    texts = lambda f: cells_of(as_files(f[names], flags, coded(rules)))
    compared = [Compared(texts(sample), expected)]
    compared += [Compared(texts(p), scores_of(model, p)) for p in probes]
    compared += [Compared(texts(f), s) for f, s in special]
    inputs = carrier.builder.input_names
    narrow = [n for n in names if narrow_float(used[n].values.dtype) is not None]
    remedy = (
        f'Fit on float64 numbers: X.astype({{"{narrow[0]}": "float64", …}}).'
        if narrow
        else 'Fit on X.astype("float32") numbers, without scalers before trees.'
    )
    problem = compare(graph, inputs, rules, compared, label, hasattr(model, "classes_"), tolerance, remedy)
    if problem is not None:
        raise CannotRegister([problem])
    content = encoding_file(rules, {inputs[n]: [n] for n in names})
    result = Export("model.onnx", graph.SerializeToString(), names, content, class_labels(model), flags)
    expectations(result, compared)
    return result


def settle(
    model: Any, frame: pd.DataFrame, columns: Sequence[Column], rules: Sequence[Rule]
) -> list[tuple[pd.DataFrame, np.ndarray]]:
    """Predicts rows with a missing or unknown value in each column. Where the model fails, the rule becomes an error.

    Returns the rows that the model predicts: many rows for each value, and rows with several such values.
    """
    row = fullest_row(frame)
    out = []
    accepted: list[tuple[Column, Any]] = []
    for at, (column, rule) in enumerate(zip(columns, rules)):
        tried = [("missing", missing_value(column))]
        if rule.kind == "category":
            tried.append(("unseen", unseen_value(column)))
        for what, value in tried:
            one = with_value(frame, [row], column, value)
            scores = tolerant_scores(model, one)
            if getattr(rule, what) == "error" or not np.isfinite(scores).all():
                setattr(rule, what, "error")
                continue
            accepted.append((column, value))
            many = with_value(frame, some_rows(frame, SPECIAL_ROWS, at), column, value)
            for part in (one, many):
                out.append((part, tolerant_scores(model, part)))
    if accepted:
        rng = np.random.default_rng(SEED)
        for _ in range(COMBINATIONS):
            mixed = frame.iloc[some_rows(frame, 4, int(rng.integers(1 << 30)))].reset_index(drop=True)
            for at in rng.integers(0, len(accepted), 3):
                column, value = accepted[int(at)]
                mixed[column.name] = column.series([value] * len(mixed))
            out.append((mixed, tolerant_scores(model, mixed)))
    return out


def tolerant_scores(model: Any, frame: pd.DataFrame) -> np.ndarray:
    """Predictions of the rows; NaN for all of them if the model fails."""
    try:
        return scores_of(model, frame)
    except Exception:
        width = len(model.classes_) if hasattr(model, "classes_") else 1
        return np.full((len(frame), width), math.nan)


def compare(
    graph: Any,
    inputs: dict[str, str],
    rules: Sequence[Rule],
    compared: Sequence[Compared],
    label: str,
    classifier: bool,
    tolerance: float,
    remedy: str,
) -> Problem | None:
    """Scores the cells as Sluice does, and compares. Returns the first difference."""
    session = session_of(graph)
    types = {i.name: np.float64 if "double" in i.type else np.float32 for i in session.get_inputs()}
    worst = 0.0
    for part in compared:
        matrix, accepted = encode_cells(rules, part.texts)
        finite = np.isfinite(part.scores).all(axis=1)
        refused = np.flatnonzero(finite & ~accepted)
        if len(refused) > 0:
            row = part.texts[int(refused[0])]
            name = next(rule.name for rule, cell in zip(rules, row) if rule.encode(cell) is None)
            return Problem(f"column {name}", "the encoding rejects a value that the model accepts", "Use numbers, booleans or texts of one spelling.")  # fmt: skip
        rows = np.flatnonzero(finite & accepted)
        if len(rows) == 0:
            continue
        with np.errstate(all="ignore"):
            feeds = {
                inputs[rule.name]: matrix[rows, c : c + 1].astype(types[inputs[rule.name]])
                for c, rule in enumerate(rules)
            }
        scores = np.asarray(session.run(None, feeds)[-1], dtype=np.float64).reshape(len(rows), -1)
        worst = max(worst, float(deviation(scores, part.scores[rows], classifier).max()))
    if worst <= tolerance:
        return None
    return Problem(
        f"the pipeline that ends in {label}",
        f"scores of its ONNX conversion differ by up to {worst:.2g} near boundaries (allowed: {tolerance:g})",
        remedy,
    )


def class_labels(model: Any) -> list[Any] | None:
    """The classes as the graph names them: booleans and whole floats are integers. None: a regression."""
    if not hasattr(model, "classes_"):
        return None
    kind = model.classes_.dtype.kind
    return [int(c) if kind in "biuf" or isinstance(c, (bool, np.bool_)) else str(c) for c in model.classes_.tolist()]


def expectations(result: Export, compared: Sequence[Compared]) -> None:
    """Keeps the sample, some boundary values, and all rows with missing and unknown values as expected predictions."""
    sample, *others = compared
    share = max(1, EXPECTED_PROBES // max(1, len(others)))
    parts = [sample, *(Compared(o.texts[:share], o.scores[:share]) for o in others)]
    scores = np.vstack([p.scores for p in parts])
    cells = [row for p in parts for row in p.texts]
    kept = np.flatnonzero(np.isfinite(scores).all(axis=1) & np.asarray([any(c != "" for c in row) for row in cells]))
    result.cells = [cells[int(i)] for i in kept]
    result.scores = scores[kept]
