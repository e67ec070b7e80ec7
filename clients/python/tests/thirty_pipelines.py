"""Registers thirty scikit-learn pipelines and compares the scores of a hold-out file with their predictions.

    python thirty_pipelines.py --command "node src/main.ts" --folder FOLDER --seed 1 [--only NAME,…]

Each pipeline must be equal within 1e-6 on every row of the hold-out, or be rejected by name as expected. A row on which
the pipeline fails must be rejected. Writes a table to standard output, and FOLDER/verdicts.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier
from ugly_portfolio import portfolio

import sluice

TOLERANCE = 1e-6
TRAINING_ROWS = 1000
HOLD_OUT_ROWS = 500
FLOATS = ["Einkommen €", "debt", "age", "balance"]
NUMBERS = [*FLOATS, "term", "credits", "owns_home"]
TEXTS = ["zip code", "branch", "grade"]
FEW = ["zip code", "branch"]


class Logarithm(TransformerMixin, BaseEstimator):
    """A transformer that is Python code of the user."""

    def fit(self, X: Any, y: Any = None) -> Logarithm:
        self.fitted_ = True
        return self

    def transform(self, X: Any) -> Any:
        return np.log1p(np.abs(X))


def median() -> SimpleImputer:
    return SimpleImputer(strategy="median")


def one_hot(**options: Any) -> OneHotEncoder:
    return OneHotEncoder(handle_unknown="ignore", **options)


def filled(encoder: Any, **options: Any) -> Pipeline:
    return make_pipeline(SimpleImputer(strategy="constant", fill_value="none", **options), encoder)


def branches(*parts: tuple[Any, list[str]], **options: Any) -> ColumnTransformer:
    return ColumnTransformer([(f"part{i}", step, columns) for i, (step, columns) in enumerate(parts)], **options)


def scaled() -> ColumnTransformer:
    return branches((make_pipeline(median(), StandardScaler()), NUMBERS), (one_hot(), TEXTS))


def plain() -> ColumnTransformer:
    return branches((median(), NUMBERS), (one_hot(), TEXTS))


def ordinal(**options: Any) -> OrdinalEncoder:
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, **options)


def arrears_as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """A column that mixes numbers and texts."""
    out = frame.copy()
    mixed = out["term"].astype(object)
    mixed[::3] = mixed[::3].astype(str)
    out["term"] = mixed
    return out


def columns_for_selectors(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["applied", "note", "had arrears", "product"])


Case = dict[str, Any]


def cases(seed: int) -> list[Case]:
    """name, pipeline, and what differs: outcome, frame, rejected (a text of the expected problem), may_reject (of a possible one)."""
    forest = lambda: RandomForestClassifier(30, max_depth=7, random_state=seed)
    boosting = lambda: GradientBoostingClassifier(n_estimators=40, random_state=seed)
    logistic = lambda: LogisticRegression(max_iter=2000)
    return [
        {"name": "scaler, one-hot, logistic", "model": make_pipeline(scaled(), logistic())},
        {"name": "median, one-hot, boosting", "model": make_pipeline(plain(), boosting())},
        {"name": "ordinal codes, forest", "model": make_pipeline(branches((median(), NUMBERS), (ordinal(encoded_missing_value=-2), TEXTS)), forest())},
        {"name": "one-hot drop=first, min_frequency, logistic", "model": make_pipeline(branches((make_pipeline(median(), RobustScaler()), NUMBERS), (OneHotEncoder(drop="first", min_frequency=0.17, handle_unknown="infrequent_if_exist"), FEW)), logistic())},
        {"name": "one-hot handle_unknown=error", "model": make_pipeline(branches((median(), FLOATS), (OneHotEncoder(), FEW)), boosting())},
        {"name": "constant text for missing, boosting", "model": make_pipeline(branches((SimpleImputer(strategy="constant", fill_value=-999), NUMBERS), (filled(one_hot()), FEW)), boosting())},
        {"name": "most frequent text, logistic", "model": make_pipeline(branches((make_pipeline(SimpleImputer(strategy="mean"), MinMaxScaler(clip=True)), NUMBERS), (make_pipeline(SimpleImputer(strategy="most_frequent"), one_hot()), FEW)), logistic())},
        {"name": "target encoder, boosting", "model": make_pipeline(branches((median(), NUMBERS), (TargetEncoder(random_state=seed), TEXTS)), boosting())},
        {"name": "target encoder, three classes", "outcome": "three", "model": make_pipeline(branches((median(), FLOATS), (TargetEncoder(random_state=seed), FEW)), forest())},
        {"name": "bins, one-hot numbers, logistic", "model": make_pipeline(branches((make_pipeline(median(), KBinsDiscretizer(6, quantile_method="averaged_inverted_cdf")), FLOATS), (one_hot(), ["term", "owns_home", "product"])), logistic())},
        {"name": "polynomial features, logistic", "model": make_pipeline(branches((make_pipeline(median(), StandardScaler(), PolynomialFeatures(2)), FLOATS)), logistic())},
        {"name": "power transformer, logistic", "model": make_pipeline(branches((make_pipeline(median(), PowerTransformer()), FLOATS), (one_hot(), ["grade"])), logistic())},
        {"name": "scaler before boosting", "model": make_pipeline(scaled(), boosting())},
        {"name": "missing indicators, forest", "model": make_pipeline(branches((SimpleImputer(add_indicator=True), FLOATS), (one_hot(), FEW)), forest())},
        {"name": "remainder passthrough, tree", "frame": lambda f: f[["Einkommen €", "branch", "term", "owns_home"]], "model": make_pipeline(ColumnTransformer([("a", one_hot(), ["branch"]), ("b", median(), ["Einkommen €"])], remainder="passthrough"), DecisionTreeClassifier(max_depth=6, random_state=seed))},
        {"name": "selectors by type, extra trees", "frame": columns_for_selectors, "model": make_pipeline(ColumnTransformer([("n", median(), make_column_selector(dtype_include="number")), ("c", one_hot(), make_column_selector(dtype_include=["category", "object", "string"]))]), ExtraTreesClassifier(30, max_depth=8, random_state=seed))},
        {"name": "histogram boosting with gaps", "model": make_pipeline(branches(("passthrough", [*FLOATS, "term", "owns_home"]), (ordinal(), TEXTS)), HistGradientBoostingClassifier(max_iter=40, categorical_features=None, random_state=seed))},
        {"name": "histogram regression", "outcome": "loss", "model": make_pipeline(branches(("passthrough", [*FLOATS, "term", "owns_home"]), (one_hot(sparse_output=False), ["grade"])), HistGradientBoostingRegressor(max_iter=40, random_state=seed))},
        {"name": "sigmoid calibration of boosting", "model": make_pipeline(plain(), CalibratedClassifierCV(GradientBoostingClassifier(n_estimators=15, random_state=seed), method="sigmoid", cv=3))},
        {"name": "soft vote", "model": make_pipeline(scaled(), VotingClassifier([("a", logistic()), ("b", forest())], voting="soft", weights=[1, 3]))},
        {"name": "text labels, booleans with gaps", "outcome": "words", "model": make_pipeline(branches((median(), FLOATS), (one_hot(), ["had arrears", "grade"])), boosting())},
        {"name": "boolean labels, neural network", "outcome": "truth", "model": make_pipeline(scaled(), MLPClassifier((8,), max_iter=60, random_state=seed))},
        {"name": "forest regression", "outcome": "loss", "model": make_pipeline(plain(), RandomForestRegressor(25, max_depth=7, random_state=seed))},
        {"name": "feature union, selection, ridge", "outcome": "loss", "model": make_pipeline(branches((make_pipeline(median(), FeatureUnion([("z", StandardScaler()), ("q", MinMaxScaler())]), SelectKBest(k=5)), FLOATS), (one_hot(), ["grade"])), Ridge())},
        {"name": "stacking", "model": make_pipeline(scaled(), StackingClassifier([("a", GaussianNB()), ("b", forest())], final_estimator=logistic(), cv=3)), "may_reject": "scores of its ONNX conversion differ"},
        {"name": "histogram boosting of categories", "frame": lambda f: f[["Einkommen €", "debt", "grade"]], "model": HistGradientBoostingClassifier(max_iter=20, random_state=seed), "rejected": "categorical features"},
        {"name": "isotonic calibration", "model": make_pipeline(plain(), CalibratedClassifierCV(forest(), method="isotonic", cv=3)), "rejected": "isotonic"},
        {"name": "function and custom transformers", "model": make_pipeline(branches((make_pipeline(median(), FunctionTransformer(np.log1p)), ["age", "debt"]), (make_pipeline(median(), Logarithm()), ["balance"]), (one_hot(), ["grade"])), logistic()), "rejected": "Python code"},
        {"name": "dates and mixed types", "frame": arrears_as_text, "model": make_pipeline(branches((median(), [*FLOATS, "term"]), (FunctionTransformer(lambda f: f.apply(lambda c: c.dt.dayofyear)), ["applied"])), boosting()), "rejected": "mixes number and text"},
        {"name": "calibration around a pipeline", "model": CalibratedClassifierCV(make_pipeline(plain(), logistic()), cv=3), "rejected": "preprocessing is inside"},
    ]  # fmt: skip


def outcome_for(kind: str | None, frame: pd.DataFrame, ok: pd.Series) -> pd.Series:
    """The outcome of a case: 0 and 1, words, booleans, three classes, or an amount."""
    if kind == "words":
        return ok.map({0: "bad", 1: "good"})
    if kind == "truth":
        return ok.astype(bool)
    income = frame["Einkommen €"].fillna(30000.0)
    if kind == "three":
        return pd.Series(np.where(ok == 1, np.where(income > 30000, "prime", "near"), "sub"), name="tier")
    if kind == "loss":
        return pd.Series((income * 0.03 + frame["debt"] * 0.001 + 100 * ok).to_numpy(), name="loss")
    return ok


def reference(model: Any, frame: pd.DataFrame) -> np.ndarray:
    """Predictions per row; NaN where the model fails on the row."""
    predict = model.predict_proba if hasattr(model, "classes_") else model.predict
    try:
        return np.asarray(predict(frame), dtype=float).reshape(len(frame), -1)
    except Exception:
        width = len(model.classes_) if hasattr(model, "classes_") else 1
        out = np.full((len(frame), width), np.nan)
        for i in range(len(frame)):
            try:
                out[i] = np.asarray(predict(frame.iloc[[i]]), dtype=float).ravel()
            except Exception:
                continue
        return out


def scored(command: list[str], registry: Path, ref: str, table: Path, out: Path) -> list[dict[str, str]]:
    """Scores a file with the command, and returns the rows of its output."""
    words = [
        *command,
        "score",
        str(table),
        "--model",
        ref,
        "--registry",
        str(registry),
        "--ignore",
        "*",
        "-o",
        str(out),
    ]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        raise RuntimeError(run.stderr)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return rows


def differences(rows: list[dict[str, str]], expected: np.ndarray, classes: list[Any] | None) -> tuple[float, int, int]:
    """Largest difference, rows rejected on both sides, and rows on which both sides disagree about the rejection."""
    worst, rejected, disagreed = 0.0, 0, 0
    found = {int(r["row"]): r for r in rows}
    for i, want in enumerate(expected):
        row = found.get(i + 1)
        failed = row is None or row["error_code"] != ""
        if failed != bool(np.isnan(want).any()):
            disagreed += 1
            continue
        if failed or row is None:
            rejected += 1
            continue
        if classes is None:
            got, wanted = [float(row["value"])], want / max(1.0, abs(want[0]))
            got = [g / max(1.0, abs(want[0])) for g in got]
        elif len(classes) == 2:
            got, wanted = [float(row["probability"])], want[[1]]
        else:
            got, wanted = [float(row[f"probability.{c}"]) for c in classes], want
        worst = max(worst, float(np.abs(np.asarray(got) - wanted).max()))
    return worst, rejected, disagreed


def run_case(case: Case, seed: int, command: list[str], folder: Path) -> dict[str, Any]:
    """Trains, registers and scores one pipeline. `silent`: a difference that no error reported."""
    (train, ok), (test, _) = portfolio(TRAINING_ROWS, seed), portfolio(HOLD_OUT_ROWS, seed, hold_out=True)
    select = case.get("frame", lambda f: f)
    y = outcome_for(case.get("outcome"), train, ok)
    X, hold_out = select(train), select(test)
    model = case["model"].fit(X, y)
    result: dict[str, Any] = {"name": case["name"], "silent": False, "rejected": None, "largest": None}
    try:
        card = sluice.register(model, X, y, f"m{case['number']}", registry=str(folder / "models"), command=command)
    except sluice.CannotRegister as error:
        result["rejected"] = [list(p) for p in error.problems]
        allowed = case.get("rejected", case.get("may_reject"))
        result["wrong"] = allowed is None or allowed not in str(error)
        return result
    except sluice.RegistrationError as error:
        result.update(rejected=[["sluice model add", error.code, str(error)]], wrong=True)
        return result
    table, out = folder / f"{case['number']}.csv", folder / f"{case['number']}.scored.csv"
    hold_out.to_csv(table, index=False)
    expected = reference(model, hold_out)
    classes = list(model.classes_) if hasattr(model, "classes_") else None
    worst, rejected, disagreed = differences(
        scored(command, folder / "models", card.ref, table, out), expected, classes
    )
    result.update(largest=worst, rows=len(expected), rejected_rows=rejected, disagreed=disagreed, card=repr(card))
    result["silent"] = not worst <= TOLERANCE or disagreed > 0
    result["wrong"] = case.get("rejected") is not None
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--command", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = [int(n) for n in given.only.split(",") if n]
    verdicts = []
    for number, case in enumerate(cases(given.seed), 1):
        if wanted and number not in wanted:
            continue
        verdict = run_case({**case, "number": number}, given.seed, shlex.split(given.command), given.folder)
        verdicts.append(verdict)
        if verdict["rejected"] is None:
            text = f"equal to {verdict['largest']:.1e} on {verdict['rows']} rows ({verdict['rejected_rows']} rejected by both)"
            if verdict["silent"]:
                text = f"DIFFERS: {verdict['largest']:.1e}, {verdict['disagreed']} rows rejected by one side"
        else:
            text = "rejected: " + "; ".join(f"{what}: {why}" for what, why, _ in verdict["rejected"])
        mark = "UNEXPECTED " if verdict["wrong"] else ""
        print(f"{number:2} | {case['name']} | {mark}{text}", flush=True)
    (given.folder / "verdicts.json").write_text(json.dumps(verdicts, ensure_ascii=False, indent=1), encoding="utf-8")
    sys.exit(any(v["silent"] or v["wrong"] for v in verdicts))


if __name__ == "__main__":
    main()
