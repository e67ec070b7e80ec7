"""Converts fitted scikit-learn estimators to ONNX, and chooses the conversion that reproduces their predictions."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime

from ._errors import Problem, first_line
from ._graph import OPSETS, GraphBuilder, Tensor
from ._steps import Unsupported, class_of, is_of
from ._trees import histogram, lightgbm_splits, lightgbm_trees, restore_missing_directions

#: scikit-learn compares float32 features with the thresholds of these trees.
FLOAT32_TREES = (
    "DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor",
    "RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor",
    "GradientBoostingClassifier", "GradientBoostingRegressor", "AdaBoostClassifier", "AdaBoostRegressor",
    "BaggingClassifier", "BaggingRegressor",
)  # fmt: skip
HISTOGRAM = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


@dataclass
class Conversion:
    """A converted estimator with one input [rows, features] of type `dtype`.

    `rows`: deviation of its scores per row. `error`: the largest one.
    """

    model: Any
    dtype: str
    error: float
    rows: np.ndarray


def unwrapped(model: Any) -> Any:
    """The estimator inside a finished search or a frozen estimator."""
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif class_of(model) == "FrozenEstimator":
            model = model.estimator
        else:
            return model


def estimators_within(model: Any) -> Iterator[Any]:
    """The estimator and all estimators inside it, fitted or not."""
    yield model
    if not hasattr(model, "get_params"):
        return
    for value in model.get_params(deep=False).values():
        items = value if isinstance(value, (list, tuple)) else [value]
        for item in items:
            inner = item[1] if isinstance(item, tuple) and len(item) > 1 else item
            if hasattr(inner, "get_params") and not isinstance(inner, type):
                yield from estimators_within(inner)


def predicts_several_outcomes(estimator: Any) -> bool:
    """Whether the estimator was fitted on several outcomes for each row."""
    if isinstance(getattr(estimator, "classes_", None), list):
        return True
    # In a neural network, n_outputs_ counts units. With softmax, there is one unit for each class of one outcome.
    if getattr(estimator, "out_activation_", None) == "softmax":
        return False
    return getattr(estimator, "n_outputs_", 1) not in (1, None)


def estimator_problems(estimator: Any, label: str) -> list[Problem]:
    """Why an estimator cannot be converted, as far as its class and parameters show."""
    found: list[Problem] = []
    what = f"estimator {label}"
    if package_of(estimator) in ("lightgbm", "xgboost", "catboost"):
        return []
    if package_of(estimator) != "sklearn":
        return [Problem(what, f"{type(estimator).__module__}.{class_of(estimator)} is not a class of scikit-learn", "Use an estimator of scikit-learn, or export the model to ONNX yourself and run sluice model add.")]  # fmt: skip
    classifier = hasattr(estimator, "classes_")
    if classifier and not hasattr(estimator, "predict_proba"):
        found.append(
            Problem(what, "it has no predict_proba", 'Calibrate it: CalibratedClassifierCV(…, method="sigmoid").')
        )
    if not classifier and not hasattr(estimator, "predict"):
        found.append(Problem(what, "it does not predict", "End the pipeline with a classifier or a regressor."))
    if predicts_several_outcomes(estimator):
        found.append(Problem(what, "it predicts several outcomes", "Fit and register one model per outcome."))
    if classifier and len(estimator.classes_) < 2:
        found.append(Problem(what, "it knows one class only", "Fit on an outcome with at least two classes."))
    for inner in estimators_within(estimator):
        name = class_of(inner)
        if name == "CalibratedClassifierCV" and inner.method == "isotonic":
            found.append(Problem(what, "skl2onnx converts isotonic calibration with errors of up to 0.05", 'Calibrate with method="sigmoid".'))  # fmt: skip
        if name == "VotingClassifier" and inner.voting == "hard":
            found.append(Problem(what, "hard voting gives no probabilities", 'Use voting="soft".'))
        if name in ("TunedThresholdClassifierCV", "FixedThresholdClassifier"):
            threshold = getattr(inner, "best_threshold_", getattr(inner, "threshold", ""))
            found.append(Problem(what, f"its predict compares the probability with {threshold}, a package with 0.5", "Register its estimator_ in its place, and add the threshold to decisions in model.yaml (min_probability)."))  # fmt: skip
        if name == "TransformedTargetRegressor":
            found.append(Problem(what, "it transforms the outcome with Python code", "Transform y before fitting, and the scores after scoring."))  # fmt: skip
        if name == "ColumnTransformer" or (name == "Pipeline" and any(class_of(s) == "ColumnTransformer" for _, s in inner.steps)):  # fmt: skip
            found.append(Problem(what, "preprocessing is inside it, fitted once per fold or member", "Fit Pipeline([preprocessing, estimator]): preprocessing first, and the calibration or the vote around the last step only."))  # fmt: skip
        if inner is not estimator and type(inner).__module__.split(".")[0] != "sklearn":
            found.append(Problem(what, f"it contains {name}, which is not a class of scikit-learn", "Use estimators of scikit-learn inside it."))  # fmt: skip
    categorical = getattr(estimator, "is_categorical_", None)
    if is_of(estimator, *HISTOGRAM) and categorical is not None and np.any(categorical):
        found.append(Problem(what, "skl2onnx converts its categorical features wrongly (errors of up to 0.82)", "Encode categories with OrdinalEncoder or OneHotEncoder, and set categorical_features=None."))  # fmt: skip
    if is_of(estimator, "LinearDiscriminantAnalysis"):
        found.append(
            Problem(what, "skl2onnx converts its probabilities with errors of up to 0.15", "Use LogisticRegression.")
        )
    return list(dict.fromkeys(found))


def scores_of(model: Any, data: Any) -> np.ndarray:
    """Predictions of the library, float64: [rows, classes] of a classifier, [rows, 1] of a regressor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(model, "classes_"):
            return np.asarray(model.predict_proba(data), dtype=np.float64)
        return np.asarray(model.predict(data), dtype=np.float64).reshape(-1, 1)


def deviation(scores: np.ndarray, expected: np.ndarray, classifier: bool) -> np.ndarray:
    """Deviation per row, as `sluice model add` measures it: relative for values beyond 1 of a regression."""
    scale = 1.0 if classifier else np.maximum(1.0, np.abs(expected))
    difference: np.ndarray = np.abs(scores - expected) / scale
    return np.where(np.isnan(difference), np.inf, difference).max(axis=1)


def session_of(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def convert(
    estimator: Any, features: np.ndarray, expected: np.ndarray, label: str, tolerance: float
) -> Conversion | Problem:
    """The first conversion that reproduces the expected scores. `features`: float64 [rows, features]."""
    tried: list[Conversion] = []
    reason = ""
    estimator = thawed(estimator)
    for dtype in dtypes_for(estimator):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = converted(estimator, features.shape[1], dtype)
            session = session_of(model)
            scores = session.run(None, {session.get_inputs()[0].name: features.astype(dtype)})[-1]
        except Unsupported as error:
            return error.problem
        except Exception as error:
            reason = reason or first_line(error)
            continue
        scores = np.asarray(scores, dtype=np.float64).reshape(len(features), -1)
        if scores.shape != expected.shape:
            reason = reason or f"{scores.shape[1]} scores instead of {expected.shape[1]}"
            continue
        rows = deviation(scores, expected, hasattr(estimator, "classes_"))
        worst = float(rows.max())
        tried.append(Conversion(model, dtype, worst, rows))
        if worst <= tolerance / 3:
            return tried[-1]
    best = min(tried, key=lambda t: t.error, default=None)
    if best is not None and best.error <= tolerance:
        return best
    what = f"estimator {label}"
    if best is None:
        return Problem(what, f"skl2onnx cannot convert it: {reason}", "Use an estimator that docs/exporting.md lists.")
    gaps = np.isnan(features).any(axis=1)
    if gaps.any() and best.rows[~gaps].max(initial=0) <= tolerance:
        return Problem(
            what,
            f"its ONNX conversion treats missing values differently; scores differ by up to {best.error:.2g}",
            "Impute missing values before it, or use HistGradientBoosting.",
        )
    return Problem(
        what,
        f"scores of its ONNX conversion differ by up to {best.error:.2g} (allowed: {tolerance:g})",
        "Use an estimator that docs/exporting.md lists, or train on float32 features.",
    )


def thawed(estimator: Any) -> Any:
    """A calibrated classifier with the estimators inside its frozen ones, which skl2onnx does not know."""
    if class_of(estimator) != "CalibratedClassifierCV":
        return estimator
    plain = copy.copy(estimator)
    plain.estimator = unwrapped(estimator.estimator)
    plain.calibrated_classifiers_ = [copy.copy(part) for part in estimator.calibrated_classifiers_]
    for part in plain.calibrated_classifiers_:
        part.estimator = unwrapped(part.estimator)
    return plain


def package_of(estimator: Any) -> str:
    return type(estimator).__module__.split(".")[0]


def dtypes_for(estimator: Any) -> tuple[str, ...]:
    """The types of features to try: the type in which the library compares them with thresholds, else both."""
    if is_of(estimator, *FLOAT32_TREES) or package_of(estimator) == "xgboost":
        return ("float32",)
    return (
        ("float64",) if is_of(estimator, *HISTOGRAM) or package_of(estimator) == "lightgbm" else ("float32", "float64")
    )


def converted(estimator: Any, width: int, dtype: str) -> Any:
    """The estimator as an ONNX model with one input [rows, width]."""
    if is_of(estimator, *HISTOGRAM):
        return histogram(estimator)
    if package_of(estimator) == "lightgbm":
        return lightgbm_trees(estimator)
    if package_of(estimator) == "xgboost":
        if estimator.objective == "multi:softmax":
            # onnxmltools would convert the labels that its booster predicts.
            raise Unsupported(Problem(f"estimator {class_of(estimator)}", "the objective multi:softmax has no conversion after these steps", 'Fit with objective="multi:softprob", which gives the same probabilities.'))  # fmt: skip
        from onnxmltools import convert_xgboost
        from onnxmltools.convert.common.data_types import FloatTensorType

        return convert_xgboost(
            estimator, initial_types=[("X", FloatTensorType([None, width]))], target_opset=OPSETS[""]
        )
    return by_skl2onnx(estimator, width, dtype)


def by_skl2onnx(estimator: Any, width: int, dtype: str) -> Any:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    if is_of(estimator, "VotingClassifier", "VotingRegressor"):
        estimator = copy.copy(estimator)
        # Affects transform() only; skl2onnx converts no other value.
        estimator.flatten_transform = False
        # skl2onnx needs an array with the weights of the members that vote.
        if estimator.weights is not None:
            weighted = zip(estimator.weights, estimator.estimators, strict=True)
            estimator.weights = np.asarray([weight for weight, (_, member) in weighted if member != "drop"])
    options = {id(estimator): {"zipmap": False}} if hasattr(estimator, "classes_") else None
    types = [("X", (FloatTensorType if dtype == "float32" else DoubleTensorType)([None, width]))]
    model = convert_sklearn(estimator, initial_types=types, options=options, target_opset=OPSETS)
    trees = fitted_trees(estimator)
    if trees and all(hasattr(tree, "missing_go_to_left") for tree in trees):
        restore_missing_directions(model, trees)
    return model


def append(builder: GraphBuilder, conversion: Conversion, block: Any) -> Any:
    """Appends the estimator to the graph of the features, and finishes the model."""
    x: Tensor = builder.tensor(block, conversion.dtype)
    inner = conversion.model.graph.output
    outputs = builder.append(conversion.model, x)
    infos = []
    for tensor, value in zip(outputs, inner):
        info = onnx.ValueInfoProto()
        info.CopyFrom(value)
        infos.append((tensor, info))
    return builder.model(infos)


def thresholds_of(estimator: Any) -> list[tuple[int, float]]:
    """(feature, threshold) of every split of a tree, a forest or a boosted ensemble."""
    if is_of(estimator, *HISTOGRAM):
        return [
            (int(node["feature_idx"]), float(node["num_threshold"]))
            for iteration in estimator._predictors
            for predictor in iteration
            for node in predictor.nodes
            if not node["is_leaf"]
        ]
    if package_of(estimator) == "lightgbm":
        return lightgbm_splits(estimator)
    return [
        (int(f), float(t)) for tree in fitted_trees(estimator) for f, t in zip(tree.feature, tree.threshold) if f >= 0
    ]


def fitted_trees(estimator: Any) -> list[Any]:
    """The trees (`tree_`) of an estimator and its members, in their order."""
    if hasattr(estimator, "tree_"):
        return [estimator.tree_]
    return [tree for member in members_of(estimator) for tree in fitted_trees(member)]


def members_of(estimator: Any) -> list[Any]:
    """The fitted members of an ensemble."""
    members: list[Any] = []
    for value in (getattr(estimator, "estimators_", []), getattr(estimator, "calibrated_classifiers_", [])):
        for item in value:
            members += np.ravel(item).tolist() if isinstance(item, np.ndarray) else [item]
    if class_of(estimator) == "_CalibratedClassifier":
        members.append(estimator.estimator)
    return members
