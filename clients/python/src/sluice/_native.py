"""Models of LightGBM, XGBoost and CatBoost: their own files, with the encoding of their columns."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._encoding import MISSING_KEYS, Rule, coded, encode_cells, encoding_file
from ._errors import CannotRegister, Problem
from ._export import SPECIAL_ROWS, Compared, Export, expectations, own_scores
from ._frame import Column, as_files, cells_of, large_float, narrow_float, read_column
from ._probes import fullest_row, missing_value, sample_of, some_rows, unseen_value, with_value
from ._trees import early_stop_problem

LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost"}


def library_of(model: Any) -> str | None:
    """`lightgbm`, `xgboost` or `catboost`; None: a model of another library."""
    for base in type(model).__mro__:
        package = base.__module__.split(".")[0]
        if package in LIBRARIES:
            return package
    return None


#: Objective of XGBoost → what its predict gives, and the objective with probabilities.
NO_PROBABILITIES = {
    "multi:softmax": ("labels", "multi:softprob"),
    "binary:hinge": ("labels", "binary:logistic"),
    "binary:logitraw": ("log odds", "binary:logistic"),
}


@dataclass
class NativeModel:
    """A model of a library, as its own file.

    `features`: names of the features, None if it has none. `categories`: feature position → values in code order.
    `unseen`: the rule for unknown categories. `predict`: float64 matrix [rows, features] with codes → scores
    [rows, classes or 1] of the model that was read back from the file. `scores`: frame → scores by the methods of the
    model itself, which its settings for predictions affect.
    """

    file: str
    content: bytes
    width: int
    features: list[str] | None
    categories: dict[int, list[Any]]
    unseen: str
    classes: list[Any] | None
    predict: Callable[[np.ndarray], np.ndarray]
    scores: Callable[[pd.DataFrame], np.ndarray]


def native_of(model: Any, library: str, frame: pd.DataFrame | None) -> NativeModel | list[Problem]:
    """Writes the model in the format of its library. `frame`: the training frame, for its categories."""
    write = {"lightgbm": write_lightgbm, "xgboost": write_xgboost, "catboost": write_catboost}[library]
    label = type(model).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return write(model, label, frame)
        except Exception as error:
            if "fit" in str(error).lower() or type(error).__name__ == "NotFittedError":
                return [Problem("the model", "it is not fitted", "Call fit first.")]
            raise


def two_columns(scores: Any, classes: Sequence[Any] | None) -> np.ndarray:
    """Scores as [rows, classes], or [rows, 1] of a regression."""
    values = np.asarray(scores, dtype=np.float64)
    if classes is not None and len(classes) == 2 and (values.ndim == 1 or values.shape[1] == 1):
        values = np.column_stack([1 - values.ravel(), values.ravel()])
    return values.reshape(len(values), -1)


def predictions(model: Any, data: Any) -> Any:
    """What the user of the model gets: probabilities of a classifier, values of another model."""
    return model.predict_proba(data) if hasattr(model, "predict_proba") else model.predict(data)


# One function per library


def write_lightgbm(model: Any, label: str, frame: pd.DataFrame | None) -> NativeModel | list[Problem]:
    import lightgbm

    booster = model if isinstance(model, lightgbm.Booster) else model.booster_
    text = booster.model_to_string()
    objective: list[str] = next(
        (line[10:].split(" ") for line in text.splitlines() if line.startswith("objective=")), []
    )
    if (
        not objective
        or objective[0] == "custom"
        or (not isinstance(model, lightgbm.Booster) and callable(model.objective))
    ):
        return [Problem(f"the model ({label})", "its objective is Python code", "Fit with an objective of LightGBM.")]
    problem = early_stop_problem(model, f"the model ({label})")
    if problem is not None:
        return [problem]
    classes = getattr(model, "classes_", None)
    if classes is None and objective[0] in ("binary", "cross_entropy"):
        classes = np.asarray([0, 1])
    if classes is None and objective[0].startswith("multiclass"):
        classes = np.arange(booster.num_model_per_iteration())
    texts = labels_of(classes)
    narrow = {} if frame is None else {i: narrow_float(frame.iloc[:, i].dtype) for i in range(len(frame.columns))}
    text = with_rounding(text, {i: kind for i, kind in narrow.items() if kind is not None})
    back = lightgbm.Booster(model_str=text)
    lists = booster.pandas_categorical or []
    names = [] if frame is None else [c for c in frame.columns if isinstance(frame[c].dtype, pd.CategoricalDtype)]
    if frame is not None and len(lists) != len(names):
        return [Problem("the frame", f"it has {len(names)} category columns, but the model was fitted on {len(lists)}", "Pass the frame that was passed to fit.")]  # fmt: skip
    positions = {} if frame is None else {list(frame.columns).index(n): list(c) for n, c in zip(names, lists)}
    return NativeModel(
        "model.txt", text.encode(), booster.num_feature(), booster.feature_name(), positions, "missing", texts,
        lambda matrix: two_columns(back.predict(matrix), texts),
        lambda data: two_columns(predictions(model, data), texts),
    )  # fmt: skip


def with_rounding(text: str, narrow: dict[int, Any]) -> str:
    """The model file with thresholds for numbers that were not rounded to the type of their column in the frame.

    `narrow`: feature position → float16 or float32. LightGBM compares float64 numbers. The text of a float32 in a file,
    such as 16777.21, is another number as a float64, and may be on the other side of a threshold. A number is rounded to
    at most the threshold if and only if it is at most the new threshold.
    """
    if not narrow:
        return text
    head, _, tail = text.partition("\nTree=0\n")
    body, end, rest = tail.partition("\nend of trees")
    blocks = [block.strip("\n") for block in f"Tree=0\n{body}".split("\n\n\n")]
    parts = [f"{with_wider_thresholds(block, narrow)}\n\n\n" for block in blocks]
    sizes = " ".join(str(len(part.encode())) for part in parts)
    lines = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    return "\n".join(lines) + "\n" + "".join(parts) + end.lstrip("\n") + rest


def with_wider_thresholds(block: str, narrow: dict[int, Any]) -> str:
    """One tree with the thresholds of `with_rounding`."""
    fields = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)
    if "threshold" not in fields:
        return block
    # The first bit of a decision type: the node compares categories.
    nodes = zip(fields["threshold"].split(), fields["split_feature"].split(), fields["decision_type"].split())
    wider = [
        repr(widest(float(threshold), narrow[int(feature)])) if int(feature) in narrow and not int(kind) & 1 else threshold
        for threshold, feature, kind in nodes
    ]
    line = f"threshold={fields['threshold']}"
    return block.replace(f"\n{line}\n", f"\nthreshold={' '.join(wider)}\n", 1)


def widest(threshold: float, kind: Any) -> float:
    """The largest float64 that is at most `threshold` after rounding to `kind`."""
    with np.errstate(over="ignore"):
        below = kind(threshold)
        if float(below) > threshold:
            below = np.nextafter(below, kind(-np.inf))
        above = float(np.nextafter(below, kind(np.inf)))
    middle = (float(below) + above) / 2
    if not math.isfinite(middle):
        return threshold
    # The middle itself is rounded to the neighbour whose last bit is 0.
    is_even = int(below.view(f"uint{below.itemsize * 8}")) & 1 == 0
    return middle if is_even else float(np.nextafter(middle, -np.inf))


def write_xgboost(model: Any, label: str, frame: pd.DataFrame | None) -> NativeModel | list[Problem]:
    import xgboost

    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    missing = getattr(model, "missing", math.nan)
    if missing is not None and not math.isnan(missing):
        return [Problem(f"the model ({label})", f"missing={missing} makes a number mean a missing value", "Replace this number by NaN, and fit with missing=numpy.nan.")]  # fmt: skip
    config = json.loads(booster.save_config())["learner"]
    objective = config["objective"]["name"]
    if callable(getattr(model, "objective", None)):
        return [Problem(f"the model ({label})", "its objective is Python code", "Fit with an objective of XGBoost.")]
    unusable = NO_PROBABILITIES.get(objective)
    # XGBClassifier computes the probabilities of multi:softmax itself.
    if unusable is not None and (objective != "multi:softmax" or isinstance(model, xgboost.Booster)):
        why, instead = unusable
        return [Problem(f"the model ({label})", f"with the objective {objective} its predict gives {why}, not probabilities", f'Train with objective="{instead}".')]  # fmt: skip
    best = booster.attributes().get("best_iteration")
    if isinstance(model, xgboost.Booster):
        rounds = booster.num_boosted_rounds()
        # predict of a Booster evaluates all trees, and predict of the scikit-learn interface those up to the best.
        if best is not None and int(best) + 1 < rounds:
            return [Problem(f"the model ({label})", f"it has {rounds} iterations and the best_iteration {best}, and its predict uses all of them", "Register booster[: booster.best_iteration + 1] for the best iteration, or call booster.set_attr(best_iteration=None, best_score=None) to use all trees.")]  # fmt: skip
    elif best is not None:
        booster = booster[: int(best) + 1]
    classes = getattr(model, "classes_", None)
    if classes is None and objective == "binary:logistic":
        classes = np.asarray([0, 1])
    if classes is None and objective == "multi:softprob":
        classes = np.arange(int(config["learner_model_param"]["num_class"]))
    texts = labels_of(classes)
    content = bytes(booster.save_raw("json"))
    back = xgboost.Booster()
    back.load_model(bytearray(content))
    kinds = booster.feature_types or []
    positions = {
        i: list(frame.iloc[:, i].cat.categories)
        for i, kind in enumerate(kinds)
        if frame is not None and kind == "c" and isinstance(frame.iloc[:, i].dtype, pd.CategoricalDtype)
    }

    def predict(matrix: np.ndarray) -> np.ndarray:
        data = xgboost.DMatrix(
            matrix, feature_names=back.feature_names, feature_types=back.feature_types, enable_categorical=True
        )
        if objective == "multi:softmax":
            # predict gives labels; predict_proba of the scikit-learn interface computes the probabilities from margins.
            margins = np.asarray(back.predict(data, output_margin=True), dtype=np.float64)
            powers = np.exp(margins - margins.max(axis=1, keepdims=True))
            return two_columns(powers / powers.sum(axis=1, keepdims=True), texts)
        return two_columns(back.predict(data), texts)

    def scores(data: pd.DataFrame) -> np.ndarray:
        if isinstance(model, xgboost.Booster):
            return two_columns(booster.predict(xgboost.DMatrix(data, enable_categorical=True)), texts)
        return two_columns(predictions(model, data), texts)

    return NativeModel(
        "model.json",
        content,
        booster.num_features(),
        list(booster.feature_names or []),
        positions,
        "error",
        texts,
        predict,
        scores,
    )


def write_catboost(model: Any, label: str, frame: pd.DataFrame | None) -> NativeModel | list[Problem]:
    import catboost

    problems = []
    for kind, positions in {
        "categorical": model.get_cat_feature_indices(),
        "text": model.get_text_feature_indices(),
        "embedding": model.get_embedding_feature_indices(),
    }.items():
        if positions:
            names = ", ".join(str(model.feature_names_[i]) for i in positions)
            problems.append(Problem(f"columns {names}", f"CatBoost hashes {kind} features, and an encoding has one number per category", "Encode categories with OrdinalEncoder or TargetEncoder in a pipeline."))  # fmt: skip
    threshold = model.get_metadata().get("binclass_probability_threshold")
    if threshold is not None and float(threshold) != 0.5:
        problems.append(Problem(f"the model ({label})", f"its predict compares the probability with {threshold}, a package with 0.5", "Call model.set_probability_threshold(None), and add the threshold to decisions in model.yaml (min_probability)."))  # fmt: skip
    loss = model.get_all_params().get("loss_function", "")
    if "PythonUserDefined" in str(loss):
        problems.append(Problem(f"the model ({label})", "its loss is Python code", "Fit with a loss of CatBoost."))
    if problems:
        return problems
    classes = getattr(model, "classes_", None)
    if classes is not None and len(classes) == 0:
        classes = None
    texts = labels_of(classes)
    exponents = str(loss).split(":")[0] in ("Poisson", "Tweedie")
    kind = "Probability" if texts is not None else "Exponent" if exponents else "RawFormulaVal"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        content = path.read_bytes()
        back = catboost.CatBoost()
        back.load_model(str(path), format="json")
    return NativeModel(
        "model.json", content, len(model.feature_names_), list(model.feature_names_), {}, "error", texts,
        lambda matrix: two_columns(back.predict(matrix, prediction_type=kind), texts),
        # predict of the class CatBoost itself gives log odds: it has no predict_proba.
        lambda data: two_columns(model.predict(data, prediction_type=kind) if type(model) is catboost.CatBoost else predictions(model, data), texts),
    )  # fmt: skip


def labels_of(classes: Any) -> list[Any] | None:
    """The classes as they are written to files."""
    if classes is None:
        return None
    return [int(c) if isinstance(c, (bool, np.bool_, int, np.integer)) or (isinstance(c, (float, np.floating)) and float(c).is_integer()) else str(c) for c in list(classes)]  # fmt: skip


# Encodings


def category_rule(column: Column, categories: Sequence[Any], unseen: str) -> Rule | Problem:
    """Codes of a pandas category: the positions of its categories. A missing value is NaN."""
    problem = large_float(column, categories)
    if problem is not None:
        return problem
    codes = {text: float(i) for i, value in enumerate(categories) for text in column.texts(value)}
    if column.is_boolean:
        if len(codes) < 2:
            return Problem(f"column {column.name}", "its categories have only one of true and false", 'Convert it to a boolean column before fitting: X["…"].astype(bool).')  # fmt: skip
        return Rule(column.name, "boolean", math.nan, codes)
    hidden = sorted(t for t in codes if t in MISSING_KEYS)
    if hidden:
        return Problem(f"column {column.name}", f"a file does not distinguish its category {hidden[0]!r} from a missing value", 'Replace the category by another text, such as "no value", and fit again.')  # fmt: skip
    return Rule(column.name, "category", math.nan, codes, math.nan if unseen == "missing" else "error")


def export_native(
    model: Any, library: str, X: pd.DataFrame, tolerance: float, flags: frozenset[str] = frozenset()
) -> Export:
    """Exports a model that was fitted on the frame itself. Raises CannotRegister with every problem."""
    native = native_of(model, library, X)
    if isinstance(native, list):
        raise CannotRegister(native)
    problems: list[Problem] = []
    if native.width != len(X.columns):
        raise CannotRegister([Problem("the frame", f"it has {len(X.columns)} columns, but the model was fitted on {native.width}", "Pass the frame that was passed to fit.")])  # fmt: skip
    for i, (own, name) in enumerate(zip(native.features or [], X.columns)):
        # The libraries name the columns of arrays, such as Column_0.
        if simplified(own) != simplified(name) and own not in (f"Column_{i}", f"f{i}", str(i)):
            problems.append(Problem(f"column {name}", f"the model was fitted on {own} at this position", "Pass the frame that was passed to fit."))  # fmt: skip
    rules: list[Rule] = []
    columns: list[Column] = []
    for i, name in enumerate(X.columns):
        column = read_column(X, name, flags)
        if isinstance(column, Problem):
            problems.append(column)
            continue
        columns.append(column)
        if i in native.categories:
            rule = category_rule(column, native.categories[i], native.unseen)
            if isinstance(rule, Problem):
                problems.append(rule)
            else:
                rules.append(rule)
        elif column.kind == "text":
            problems.append(Problem(f"column {name}", "it contains texts, and the model file has no codes for them", 'Convert it to a category before fitting: X["…"].astype("category").'))  # fmt: skip
        else:
            rules.append(Rule(name, "boolean" if column.is_boolean else "number"))
    if problems:
        raise CannotRegister(problems)
    sample = sample_of(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = own_scores(native.scores, sample)
    special = settle_native(native, X, columns, rules, flags)
    compared = [Compared(cells_of(as_files(sample, flags, coded(rules))), expected), *special]
    return checked(native, list(X.columns), rules, compared, type(model).__name__, tolerance, flags)


def simplified(name: Any) -> str:
    """A name without the characters that LightGBM replaces."""
    return "".join(c if c.isalnum() else "_" for c in str(name))


def settle_native(
    native: NativeModel, frame: pd.DataFrame, columns: Sequence[Column], rules: Sequence[Rule], flags: frozenset[str]
) -> list[Compared]:
    """Predicts a row with a missing or unknown value in each column; a rule becomes an error where the model fails."""
    row = fullest_row(frame)
    out = []
    for at, (column, rule) in enumerate(zip(columns, rules)):
        tried = [("missing", missing_value(column))]
        unseen = unseen_value(column) if rule.kind == "category" else None
        if unseen is not None:
            tried.append(("unseen", unseen))
        for what, value in tried:
            for rows in ([row], some_rows(frame, SPECIAL_ROWS, at)):
                part = with_value(frame, rows, column, value)
                cells = cells_of(as_files(part, flags, coded(rules)))
                try:
                    dtype = frame[column.name].dtype
                    if isinstance(dtype, pd.CategoricalDtype):
                        known = dtype.categories
                        # The type of the categories stays: float64 would make integers above 2^53 equal.
                        both = known if what == "missing" else known.append(pd.Index([value], dtype=known.dtype))
                        part[column.name] = pd.Categorical([None if what == "missing" else value] * len(rows), both)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        scores = native.scores(part)
                except Exception:
                    setattr(rule, what, "error")
                    break
                if getattr(rule, what) == "error":
                    break
                out.append(Compared(cells, scores))
    return out


def checked(
    native: NativeModel,
    names: list[str],
    rules: Sequence[Rule],
    compared: Sequence[Compared],
    label: str,
    tolerance: float,
    flags: frozenset[str],
) -> Export:
    """Compares the file, on encoded cells, with the predictions of the model."""
    from ._estimator import deviation

    worst = 0.0
    for part in compared:
        matrix, accepted = encode_cells(rules, part.texts)
        finite = np.isfinite(part.scores).all(axis=1)
        if (finite & ~accepted).any():
            refused = part.texts[int(np.flatnonzero(finite & ~accepted)[0])]
            name = next(rule.name for rule, cell in zip(rules, refused) if rule.encode(cell) is None)
            raise CannotRegister([Problem(f"column {name}", "the encoding rejects a value that the model accepts", "Use numbers, booleans or texts of one spelling.")])  # fmt: skip
        rows = np.flatnonzero(finite)
        if len(rows) > 0:
            scores = native.predict(matrix[rows])
            worst = max(worst, float(deviation(scores, part.scores[rows], native.classes is not None).max()))
    if worst > tolerance:
        raise CannotRegister([Problem(f"the model ({label})", f"scores of its file with the encoding differ by up to {worst:.2g} (allowed: {tolerance:g})", "Fit with the default settings for missing values, categories and predictions.")])  # fmt: skip
    result = Export(native.file, native.content, names, encoding_file(rules, order=names, classes=native.classes), native.classes, flags)
    expectations(result, compared)
    return result
