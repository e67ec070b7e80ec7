"""Tests of `sluice.register`. SLUICE_COMMAND names the command.

python -m unittest discover -s clients/python/tests
"""

from __future__ import annotations

import io
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier
from thirty_pipelines import branches, median, one_hot, ordinal
from ugly_portfolio import portfolio

import sluice
from sluice._estimator import estimator_problems

warnings.simplefilter("ignore")
# Checks of every change try fewer kinds of numbers.
CAMPAIGN = os.environ.get("SLUICE_TIER", "campaigns") == "campaigns"
NO_COMMAND = ["this command does not exist"]
TRAINING, OK = portfolio(800, 3)


def files_of(model: Any, X: pd.DataFrame, y: Any = OK, **options: Any) -> tuple[dict[str, Any], Path]:
    """The encoding and the folder of a registration that stops at the command."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-test-"))
    try:
        sluice.register(model, X, y, command=NO_COMMAND, folder=folder, **options)
    except sluice.RegistrationError as error:
        assert error.code == "command_not_found", error
    return json.loads((folder / "encoding.json").read_text(encoding="utf-8")), folder


def problems_of(model: Any, X: pd.DataFrame, y: Any = OK, **options: Any) -> str:
    """The problems of a model that cannot be registered."""
    try:
        sluice.register(model, X, y, command=NO_COMMAND, **options)
    except sluice.CannotRegister as error:
        for what, why, remedy in error.problems:
            assert what and why and remedy.endswith((".", "]'", "pandas")), error
        return str(error)
    raise AssertionError("no problem was found")


def categories(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as LightGBM and XGBoost take it."""
    out = frame.drop(columns=["applied", "note"])
    for name in ("zip code", "branch"):
        out[name] = out[name].astype("category")
    out["had arrears"] = out["had arrears"].astype(bool)
    out["credits"] = out["credits"].astype(float)
    return out


class Problems(unittest.TestCase):
    """What cannot be carried over is named, all at once, before any command runs."""

    def test_every_problem_is_listed(self) -> None:
        frame = TRAINING.copy()
        frame["term"] = frame["term"].astype(object)
        frame.loc[::2, "term"] = frame.loc[::2, "term"].astype(str)
        prep = branches(
            (median(), ["term", "age"]),
            (FunctionTransformer(lambda f: f.apply(lambda c: c.dt.year)), ["applied"]),
            (make_pipeline(median(), FunctionTransformer(np.log1p)), ["debt"]),
        )
        model = make_pipeline(prep, CalibratedClassifierCV(RandomForestClassifier(5), method="isotonic"))
        text = problems_of(model.fit(frame, OK), frame)
        self.assertIn("column term: it mixes number and text values", text)
        self.assertIn("its function log1p is Python code", text)
        self.assertIn("its function <lambda> is Python code", text)
        self.assertIn("isotonic calibration", text)
        self.assertEqual(text.count("\n- "), 4)

    def test_several_outcomes(self) -> None:
        X = TRAINING[["term"]].astype("float32")
        tier = pd.Series(np.digitize(X["term"], [18, 30]), name="tier")
        both = np.column_stack([OK, tier > 0]).astype(int)
        network = MLPClassifier(hidden_layer_sizes=(2,), max_iter=2, random_state=0)
        for model, y, several in [
            (network, tier, False),
            (network, OK, False),
            (network, both, True),
            (MLPRegressor(hidden_layer_sizes=(2,), max_iter=2), both, True),
            (DecisionTreeClassifier(max_depth=2), both, True),
        ]:
            with self.subTest(model=model, several=several):
                found = [problem.why for problem in estimator_problems(model.fit(X, y), "model")]
                self.assertEqual("it predicts several outcomes" in found, several, found)

    def test_thresholds_of_predictions(self) -> None:
        from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

        X = TRAINING[["debt", "term"]]
        fixed = FixedThresholdClassifier(LogisticRegression(), threshold=0.3)
        tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring="f1", cv=2)
        for model in (fixed, make_pipeline(StandardScaler(), fixed), make_pipeline(StandardScaler(), tuned)):
            self.assertIn("its predict compares the probability with 0.", problems_of(model.fit(X, OK), X))

    def test_threshold_of_catboost(self) -> None:
        import catboost

        X = TRAINING[["debt", "term"]]
        model = catboost.CatBoostClassifier(iterations=3, verbose=False, allow_writing_files=False).fit(X, OK)
        model.set_probability_threshold(0.2)
        self.assertIn("its predict compares the probability with 0.2", problems_of(model, X))
        model.set_probability_threshold(None)
        files_of(model, X)

    def test_columns_of_a_booster_in_another_order(self) -> None:
        import lightgbm

        X = TRAINING[["debt", "balance"]].rename(columns={"debt": "fdebt", "balance": "fbalance"})
        model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, OK)
        text = problems_of(model, X[["fbalance", "fdebt"]])
        self.assertIn("column fbalance: the model was fitted on fdebt at this position", text)
        # The model of an array has no names of its own.
        files_of(lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X.to_numpy(), OK), X)

    def test_calibration_of_a_frozen_estimator(self) -> None:
        from sklearn.frozen import FrozenEstimator

        X = TRAINING[["debt", "term"]]
        scaler = StandardScaler().fit(X)
        inner = LogisticRegression(C=0.01).fit(scaler.transform(X), OK)
        calibrated = CalibratedClassifierCV(FrozenEstimator(inner), method="sigmoid").fit(scaler.transform(X), OK)
        files_of(Pipeline([("scale", scaler), ("calibrate", calibrated)]), X)
        self.assertIsInstance(calibrated.estimator, FrozenEstimator)

    def test_columns(self) -> None:
        frame = TRAINING[["applied", "branch", "age"]]
        model = make_pipeline(ColumnTransformer([("a", median(), ["age"])], remainder="drop"), LogisticRegression())
        model.fit(frame, OK)
        # Columns that the pipeline drops have no problem.
        encoding, _ = files_of(model, frame)
        self.assertEqual(list(encoding["inputs"].values()), [["age"]])
        self.assertIn("lacks: applied", problems_of(model, frame.drop(columns="applied")))
        self.assertIn("it is a ndarray", problems_of(model, frame.to_numpy()))
        self.assertIn("800 rows", problems_of(model, frame, OK[:10]))
        self.assertIn("is the outcome and a column", problems_of(model, frame, outcome="age"))
        self.assertIn("not a class of the model", problems_of(model, frame, positive_class="good"))
        self.assertIn("values are not classes", problems_of(model, frame, OK + 5))
        self.assertIn("infinite numbers", problems_of(model, frame.assign(age=np.inf)))
        self.assertIn("means all columns", problems_of(model, frame.rename(columns={"branch": "*"})))

    def test_inputs_of_other_shapes(self) -> None:
        frame = TRAINING[["debt", "term"]]
        model = LogisticRegression().fit(frame, OK)
        for outcome in (None, 5, "ok", [[1], [1, 2]], np.zeros((800, 1, 1)), np.zeros((800, 2))):
            self.assertIn("it is not a single column", problems_of(model, frame, outcome))
        self.assertIn("it lacks columns of the model: term", problems_of(model, frame, background=frame[["debt"]]))
        self.assertIn("background: it is a ndarray", problems_of(model, frame, background=frame.to_numpy()))
        sparse = frame.astype(pd.SparseDtype("int64", 0))
        encoding, _ = files_of(LogisticRegression().fit(sparse, OK), sparse)
        self.assertEqual(set(encoding["missing"].values()), {"error"})

    def test_errors_of_libraries(self) -> None:
        import lightgbm
        import xgboost

        frame = TRAINING[["debt", "term"]]
        model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(frame, OK)
        self.assertIn("it fails on its own frame: pandas dtypes must be", problems_of(model, frame.astype(object)))
        self.assertIn("exporting it failed with XGBoostError", problems_of(xgboost.Booster(), frame))

    def test_models(self) -> None:
        numbers = TRAINING[["debt", "term"]]
        self.assertIn("it has no predict_proba", problems_of(RidgeClassifier().fit(numbers, OK), numbers))
        self.assertIn("it is not fitted", problems_of(LogisticRegression(), numbers))
        self.assertIn("it is a class", problems_of(LogisticRegression, numbers))
        self.assertIn("has no predict method", problems_of("a text", numbers))
        # Fitted models of other libraries, such as statsmodels, have no fit method.
        foreign = type("Results", (), {"predict": lambda self, frame: frame})()
        self.assertIn("Results is not an estimator of scikit-learn", problems_of(foreign, numbers))
        graded = TRAINING[["debt", "grade"]]
        boosting = HistGradientBoostingClassifier(max_iter=5).fit(graded, OK)
        self.assertIn("categorical features wrongly", problems_of(boosting, graded))
        inside = CalibratedClassifierCV(make_pipeline(branches((one_hot(), ["grade"])), LogisticRegression()), cv=2)
        self.assertIn("preprocessing is inside it", problems_of(inside.fit(graded, OK), graded))

    def test_category_that_looks_missing(self) -> None:
        frame = pd.DataFrame({"answer": np.where(TRAINING["owns_home"], "None", "yes"), "debt": TRAINING["debt"]})
        frame.loc[:50, "answer"] = np.nan
        model = make_pipeline(branches((one_hot(), ["answer"]), (StandardScaler(), ["debt"])), LogisticRegression())
        self.assertIn(
            "does not distinguish its category 'None' from a missing value", problems_of(model.fit(frame, OK), frame)
        )

    def test_a_number_and_a_category(self) -> None:
        frame = TRAINING[["term"]]
        model = make_pipeline(branches((one_hot(), ["term"]), (StandardScaler(), ["term"])), LogisticRegression())
        self.assertIn("both as a number and as a category", problems_of(model.fit(frame, OK), frame))


class Encodings(unittest.TestCase):
    """Codes and the rules for missing and unknown values come from the fitted objects."""

    def test_imputer_and_ordinal_codes(self) -> None:
        prep = branches(
            (SimpleImputer(strategy="mean"), ["age"]), (ordinal(encoded_missing_value=-2), ["zip code", "grade"])
        )
        model = make_pipeline(prep, RandomForestClassifier(5, random_state=1)).fit(TRAINING, OK)
        encoding, _ = files_of(model, TRAINING)
        self.assertEqual(encoding["codes"]["zip code"]["02134"], 2)
        self.assertEqual(encoding["codes"]["zip code"]["007"], 1)
        self.assertEqual(encoding["missing"]["zip code"], -2)
        self.assertEqual(encoding["unseen"], {"zip code": -1, "grade": -1})
        self.assertEqual(encoding["missing"]["age"], TRAINING["age"].mean())

    def test_one_hot(self) -> None:
        prep = branches(
            (OneHotEncoder(drop="first", handle_unknown="ignore"), ["branch"]), (OneHotEncoder(), ["term", "owns_home"])
        )
        model = make_pipeline(prep, LogisticRegression()).fit(TRAINING, OK)
        encoding, _ = files_of(model, TRAINING)
        codes = encoding["codes"]["branch"]
        self.assertEqual(sorted(codes.values()), [-1, 0, 1, 2, 3, 4])
        # A missing value is a category of its own, and an unknown one is all zeros.
        self.assertEqual((encoding["missing"]["branch"], encoding["unseen"]["branch"]), (5, -1))
        self.assertEqual((encoding["missing"]["term"], encoding["unseen"]["term"]), ("error", "error"))
        self.assertEqual(set(encoding["codes"]["term"]), {str(term) for term in TRAINING["term"].unique()})
        self.assertEqual(set(encoding["codes"]["owns_home"]), {"False", "True"})

    def test_two_encoders_of_one_column(self) -> None:
        prep = branches((one_hot(), ["branch"]), (TargetEncoder(random_state=0), ["branch"]))
        model = make_pipeline(prep, LogisticRegression()).fit(TRAINING, OK)
        encoding, folder = files_of(model, TRAINING)
        self.assertEqual(sorted(encoding["codes"]["branch"].values()), list(range(6)))
        self.assertTrue((folder / "model.onnx").stat().st_size > 0)

    def test_empty_text(self) -> None:
        frame = pd.DataFrame({"answer": np.where(TRAINING["owns_home"], "", "yes")})
        model = make_pipeline(branches((one_hot(), ["answer"])), LogisticRegression()).fit(frame, OK)
        encoding, _ = files_of(model, frame)
        self.assertEqual((encoding["codes"]["answer"], encoding["missing"]["answer"]), ({"yes": 1}, 0))

    def test_words_for_booleans_stay_texts(self) -> None:
        frame = pd.DataFrame({"phone": np.where(TRAINING["owns_home"], "Y", "N"), "debt": TRAINING["debt"]})
        model = make_pipeline(branches((one_hot(), ["phone"]), (StandardScaler(), ["debt"])), LogisticRegression())
        with tempfile.TemporaryDirectory() as folder:
            card = sluice.register(model.fit(frame, OK), frame, OK, registry=folder)
        [phone, _] = card.manifest["columns"]
        self.assertEqual((phone["kind"], phone["unseen"], phone["unseen_value"]), ("category", "value", -1))
        self.assertEqual(card.data["selfTest"]["rejected"], 0)

    def test_booleans_that_were_numbers(self) -> None:
        frame = pd.DataFrame({"home": TRAINING["owns_home"].astype("float32"), "debt": TRAINING["debt"]})
        frame.loc[:30, "home"] = np.nan
        model = make_pipeline(median(), GradientBoostingClassifier(n_estimators=5)).fit(frame, OK)
        with tempfile.TemporaryDirectory() as folder:
            card = sluice.register(model, frame, OK, registry=folder, booleans=["home"])
        self.assertEqual([c["kind"] for c in card.manifest["columns"]], ["boolean", "number"])
        self.assertIn("other numbers than 0 and 1", problems_of(model, frame, booleans=["debt"]))

    def test_float32_categories_and_weights(self) -> None:
        frame = pd.DataFrame({"rate": TRAINING["term"].astype("float32") / 10, "debt": TRAINING["debt"]})
        prep = ColumnTransformer(
            [("c", one_hot(), ["rate"]), ("d", StandardScaler(), ["debt"])], transformer_weights={"d": 3.0, "c": 0.5}
        )
        model = make_pipeline(prep, LogisticRegression()).fit(frame, OK)
        encoding, _ = files_of(model, frame)
        # CSV files have the short text, and binary files the exact value.
        codes = encoding["codes"]["rate"]
        self.assertEqual(codes["1.2"], codes[repr(float(np.float32(1.2)))])
        self.assertFalse([text for text in codes if text.endswith(".0")])

    def test_texts_of_numbers(self) -> None:
        from sluice._frame import number_text

        for value, text in (
            (12, "12"), (12.0, "12"), (np.int8(-3), "-3"), (np.float32(1.2), "1.2"), (-0.0, "0"), (2**53 + 1, "9007199254740993"),
            (1e16, "10000000000000000"), (1e21, "1e+21"), (-1.5e-7, "-1.5e-7"), (0.000001, "0.000001"), (1234.5, "1234.5"),
        ):  # fmt: skip
            self.assertEqual(number_text(value), text)

    def test_number_categories_have_one_text(self) -> None:
        whole = TRAINING["term"]
        values = {
            "int64": whole,
            "int16": whole.astype("int16"),
            "float": whole.astype(float),
            "gaps": whole.astype(float).where(TRAINING["owns_home"]),
            "Int64": whole.astype("Int64").where(TRAINING["owns_home"]),
            "Float64": whole.astype("Float64"),
            "objects": whole.astype(object),
            "category": whole.astype(float).astype("category"),
        }
        texts = {str(term) for term in whole.unique()}
        for encoder in (one_hot(), ordinal(encoded_missing_value=-2)):
            frame = pd.DataFrame({**values, "zip": TRAINING["zip code"].fillna("12.0")})
            # scikit-learn reads pandas.NA in columns of objects only.
            frame["Int64"] = frame["Int64"].fillna(12)
            model = make_pipeline(branches((encoder, list(frame.columns))), LogisticRegression()).fit(frame, OK)
            encoding, folder = files_of(model, frame)
            for name in values:
                self.assertEqual(set(encoding["codes"][name]), texts, name)
            # Texts stay as they are.
            self.assertEqual(set(encoding["codes"]["zip"]), set(frame["zip"]))
            for file in ("training.csv", "background.csv"):
                cells = pd.read_csv(folder / file, dtype=str)
                for name in values:
                    self.assertLessEqual(set(cells[name].dropna()), texts, (file, name))

    def test_zero_has_no_sign(self) -> None:
        frame = pd.DataFrame({"delta": np.where(TRAINING["owns_home"], -0.0, 1.0)})
        model = make_pipeline(branches((one_hot(), ["delta"])), LogisticRegression()).fit(frame, OK)
        encoding, folder = files_of(model, frame)
        self.assertEqual(set(encoding["codes"]["delta"]), {"0", "1"})
        self.assertEqual(set(pd.read_csv(folder / "training.csv", dtype=str)["delta"]), {"0", "1"})

    def test_weight_of_evidence(self) -> None:
        from optbinning import BinningProcess

        columns = ["branch", "grade"]
        frame = TRAINING[columns].astype({"grade": str})
        process = BinningProcess(columns, categorical_variables=columns)
        model = make_pipeline(process, LogisticRegression()).fit(frame, OK)
        encoding, _ = files_of(model, frame)
        woe = dict(zip(frame["branch"], process.transform(frame)["branch"]))
        for branch, code in encoding["codes"]["branch"].items():
            self.assertAlmostEqual(code, woe[branch], places=12)

    def test_categories_that_only_the_binning_knows(self) -> None:
        from optbinning import BinningProcess

        frame = TRAINING[["branch", "grade"]].fillna("none").astype({"grade": str})
        splits = np.empty(3, dtype=object)
        splits[:] = [["A"], ["B", "planned"], ["C", "D"]]
        for special in (["lost", -9, None], {"a": ["lost"], "b": [-9, "stolen"]}):
            process = BinningProcess(
                ["branch", "grade"],
                categorical_variables=["branch", "grade"],
                special_codes=special,
                binning_fit_params={"grade": {"user_splits": splits}},
                binning_transform_params={"branch": {"metric": "woe", "metric_special": 2.5}},
            )
            model = make_pipeline(process, LogisticRegression()).fit(frame, OK)
            encoding, _ = files_of(model, frame)
            rare = frame.head(2).assign(branch="lost", grade="planned")
            codes = [encoding["codes"][name][rare[name][0]] for name in frame]
            np.testing.assert_allclose(codes, process.transform(rare).iloc[0], atol=1e-12)
            self.assertEqual(codes[0], 2.5)
            self.assertNotEqual(codes[1], encoding["unseen"]["grade"])

    def test_the_expected_rows_have_boundary_missing_and_unknown_values(self) -> None:
        model = make_pipeline(
            branches((median(), ["debt"]), (one_hot(), ["branch"])), GradientBoostingClassifier(n_estimators=5)
        )
        model.fit(TRAINING, OK)
        _, folder = files_of(model, TRAINING)
        rows = pd.read_csv(folder / "expected-rows.csv", dtype={"branch": str}, keep_default_na=False)
        self.assertIn("unknown to the encoder", set(rows["branch"]))
        self.assertIn("", set(rows["debt"].astype(str)))
        self.assertGreater(len(rows), len(TRAINING))
        expected = pd.read_csv(folder / "expected.csv")
        self.assertEqual(list(expected.columns), ["probability"])
        self.assertEqual(len(expected), len(rows))


class Commands(unittest.TestCase):
    """Registrations with the real command."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.registry = str(Path(self.folder.name) / "models")
        self.frame = TRAINING[["debt", "term"]]
        self.model = make_pipeline(StandardScaler(), LogisticRegression()).fit(self.frame, OK)

    def test_report_card_and_alias(self) -> None:
        card = sluice.register(self.model, TRAINING, OK, registry=self.registry, alias="champion")
        self.assertEqual((card.ref, card.registered), ("credit:1", True))
        self.assertTrue(card.data["selfTest"]["passed"])
        self.assertIn("## Against the training library", card.text)
        self.assertIn("credit:1: registered", repr(card))
        self.assertTrue(card._repr_html_().startswith("<pre>"))
        self.assertIn("branch", card.unused)
        stored = json.loads((Path(self.registry) / "credit" / "1" / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(stored["selfTest"], card.data["selfTest"])
        self.assertTrue((Path(self.registry) / "credit" / "aliases.yaml").exists())

    def test_number_categories_accept_numbers(self) -> None:
        import lightgbm

        for name, kind in (("whole", "int64"), ("gaps", "float64"), ("nullable", "Int64")):
            with self.subTest(name):
                frame = pd.DataFrame({"term": TRAINING["term"].astype(kind), "debt": TRAINING["debt"]})
                frame["term"] = frame["term"].astype("category")
                model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(frame, OK)
                card = sluice.register(model, frame, OK, name, registry=self.registry)
                with open(Path(self.folder.name) / "rows.ndjson", "w", encoding="utf-8") as file:
                    for term, debt in zip(TRAINING["term"], TRAINING["debt"]):
                        file.write(json.dumps({"term": term, "debt": debt}) + "\n")
                command = shlex.split(os.environ["SLUICE_COMMAND"])
                run = subprocess.run(
                    [*command, "score", file.name, "--model", card.ref, "--registry", self.registry, "--format", "ndjson", "-o", "-"],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                )  # fmt: skip
                scores = [json.loads(line)["probability"] for line in run.stdout.splitlines()]
                np.testing.assert_allclose(scores, model.predict_proba(frame)[:, 1], atol=1e-9)

    def test_dry_run(self) -> None:
        card = sluice.register(
            self.model, self.frame, OK, registry=self.registry, dry_run=True, arguments=["--as-version", "7"]
        )
        self.assertEqual(card.ref, "credit:7")
        self.assertFalse(card.registered)
        self.assertFalse((Path(self.registry) / "credit" / "1").exists())

    def test_rejected_by_the_command(self) -> None:
        with self.assertRaises(sluice.RegistrationError) as caught:
            sluice.register(self.model, self.frame, OK, registry=self.registry, outcome="default")
        self.assertEqual(caught.exception.code, "registration_refused")
        self.assertIn("--positive-class", str(caught.exception))
        card = sluice.register(
            self.model, self.frame, OK, registry=self.registry, outcome="default", positive_class=False
        )
        self.assertEqual(card.manifest["positive_class"], 0)

    def test_search_and_regression(self) -> None:
        search = GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [1, 2]})
        card = sluice.register(search.fit(self.frame, OK), self.frame, OK, "search", registry=self.registry)
        self.assertEqual(card.manifest["task"], "binary")
        loss = (self.frame["debt"] * 0.01 + self.frame["term"]).rename("loss")
        card = sluice.register(
            LinearRegression().fit(self.frame, loss), self.frame, loss, "loss", registry=self.registry
        )
        self.assertEqual((card.manifest["task"], card.manifest["outcome"]), ("regression", "loss"))

    def test_commands_that_fail(self) -> None:
        for command, code in ((NO_COMMAND, "command_not_found"), ([sys.executable, "-c", "exit(7)"], "command_failed")):
            with self.assertRaises(sluice.RegistrationError) as caught:
                sluice.register(self.model, self.frame, OK, command=command)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(sluice.RegistrationError) as caught:
            waiting = [sys.executable, "-c", "import time; time.sleep(60)"]
            sluice.register(self.model, self.frame, OK, command=waiting, timeout=0.2)
        self.assertEqual(caught.exception.code, "command_timeout")

    def test_import_loads_no_library(self) -> None:
        program = "import sys, sluice; print(sorted({'numpy', 'pandas', 'sklearn', 'onnx'} & set(sys.modules)))"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", program], text=True).strip(), "[]")


class Privacy(unittest.TestCase):
    def test_the_export_sends_nothing(self) -> None:
        program = "from sluice import _register, _estimator; print('done')"
        with tempfile.TemporaryDirectory() as folder:
            environment = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "PYTHONPATH": os.pathsep.join(sys.path)}
            run = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
            )
            self.assertEqual((run.stdout.strip(), run.stderr), ("done", ""))
            self.assertEqual([str(file) for file in Path(folder).rglob("*") if "Microsoft" in str(file) or "mat-debug" in file.name], [])


class Boosting(unittest.TestCase):
    """Models of LightGBM, XGBoost and CatBoost."""

    def test_lightgbm_file_and_encoding(self) -> None:
        import lightgbm

        X = categories(TRAINING)
        model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(X, OK)
        encoding, folder = files_of(model, X)
        self.assertEqual(encoding["order"], list(X.columns))
        self.assertEqual(encoding["codes"]["zip code"]["007"], 1)
        self.assertEqual(encoding["codes"]["product"]["205"], 2)
        self.assertEqual((encoding["unseen"]["branch"], encoding["missing"]["branch"]), ("nan", "nan"))
        # Another object type than in training is an error of LightGBM.
        self.assertEqual(encoding["missing"]["owns_home"], "error")
        text = (folder / "model.txt").read_text(encoding="utf-8")
        self.assertTrue(text.startswith("tree\n"))
        back = lightgbm.Booster(model_str=text)
        self.assertEqual(back.num_trees(), 10)

    def test_xgboost_file_and_encoding(self) -> None:
        import xgboost

        X = categories(TRAINING)
        model = xgboost.XGBClassifier(n_estimators=10, enable_categorical=True).fit(X, OK)
        encoding, folder = files_of(model, X)
        self.assertEqual(encoding["codes"]["branch"]["東京"], 5)
        self.assertEqual(encoding["unseen"]["branch"], "error")
        back = xgboost.Booster()
        back.load_model(folder / "model.json")
        self.assertEqual(back.num_boosted_rounds(), 10)
        marked = xgboost.XGBClassifier(n_estimators=2, missing=-999.0).fit(X[["debt"]], OK)
        self.assertIn("missing=-999.0 makes a number mean a missing value", problems_of(marked, X[["debt"]]))

    def test_xgboost_after_early_stopping(self) -> None:
        import xgboost

        X = TRAINING[["debt", "balance"]]
        model = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=3, learning_rate=0.9)
        model.fit(X[:500], OK[:500], eval_set=[(X[500:], OK[500:])], verbose=False)
        _, folder = files_of(model, X)
        back = xgboost.Booster()
        back.load_model(folder / "model.json")
        self.assertEqual(back.num_boosted_rounds(), model.best_iteration + 1)

    def test_xgboost_booster_after_early_stopping(self) -> None:
        import xgboost

        X = TRAINING[["debt", "balance"]]
        data, held_out = xgboost.DMatrix(X[:500], OK[:500]), xgboost.DMatrix(X[500:], OK[500:])
        options = {"objective": "binary:logistic", "learning_rate": 0.9}
        booster = xgboost.train(
            options, data, 60, evals=[(held_out, "holdout")], early_stopping_rounds=3, verbose_eval=False
        )
        rounds, best = booster.num_boosted_rounds(), booster.best_iteration
        text = problems_of(booster, X)
        self.assertIn(f"it has {rounds} iterations and the best_iteration {best}", text)
        # Both remedies of the message.
        sliced = booster[: booster.best_iteration + 1]
        whole = booster.copy()
        whole.set_attr(best_iteration=None, best_score=None)
        with tempfile.TemporaryDirectory() as folder:
            for name, model, count in (("best", sliced, best + 1), ("all", whole, rounds)):
                with self.subTest(name):
                    card = sluice.register(model, X, OK, name, registry=folder)
                    self.assertTrue(card.data["selfTest"]["passed"])
                    back = xgboost.Booster(model_file=Path(folder) / name / "1" / "model.json")
                    self.assertEqual(back.num_boosted_rounds(), count)

    def test_xgboost_objectives_without_probabilities(self) -> None:
        import xgboost

        X = TRAINING[["debt", "age"]].fillna(0)
        tier = pd.Series(np.digitize(X["debt"], [60_000, 150_000]), name="tier")
        labels = xgboost.XGBClassifier(n_estimators=5, objective="multi:softmax")
        with tempfile.TemporaryDirectory() as folder:
            # Its predict_proba computes the probabilities.
            card = sluice.register(labels.fit(X, tier), X, tier, registry=folder)
        self.assertTrue(card.data["selfTest"]["passed"])
        text = problems_of(labels.get_booster(), X, tier)
        self.assertIn("its predict gives labels, not probabilities", text)
        self.assertIn('objective="multi:softprob"', text)
        scaled = make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=5, objective="multi:softmax"))
        text = problems_of(scaled.fit(X, tier), X, tier)
        self.assertIn("the objective multi:softmax has no conversion", text)
        for objective in ("binary:hinge", "binary:logitraw"):
            model = xgboost.XGBClassifier(n_estimators=5, objective=objective).fit(X, OK)
            self.assertIn('Train with objective="binary:logistic"', problems_of(model, X))

    def test_catboost_file_and_encoding(self) -> None:
        import catboost

        X = TRAINING[["debt", "age", "owns_home"]]
        options = {"iterations": 10, "verbose": False, "allow_writing_files": False}
        model = catboost.CatBoostClassifier(**options).fit(X, OK)
        encoding, folder = files_of(model, X)
        self.assertEqual(encoding["order"], list(X.columns))
        self.assertEqual(encoding["missing"]["age"], "nan")
        self.assertIn("oblivious_trees", json.loads((folder / "model.json").read_text(encoding="utf-8")))
        hashed = catboost.CatBoostClassifier(**options, cat_features=["grade"]).fit(TRAINING[["debt", "grade"]], OK)
        self.assertIn("hashes categorical features", problems_of(hashed, TRAINING[["debt", "grade"]]))

    def test_lightgbm_boolean_categories(self) -> None:
        import lightgbm

        owner = TRAINING["owns_home"].astype(bool)
        with tempfile.TemporaryDirectory() as folder:
            for name, column in (
                ("plain", pd.Categorical(owner)),
                ("reversed", pd.Categorical(owner, categories=[True, False])),
                ("nullable", owner.astype("boolean").where(TRAINING["debt"] > 10_000).astype("category")),
            ):
                with self.subTest(name):
                    X = pd.DataFrame({"owner": column, "debt": TRAINING["debt"]})
                    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, OK)
                    card = sluice.register(model, X, OK, name, registry=folder)
                    self.assertEqual([c["kind"] for c in card.manifest["columns"]], ["boolean", "number"])
                    self.assertTrue(card.data["selfTest"]["passed"])
        X = pd.DataFrame({"owner": pd.Categorical([True] * len(OK)), "debt": TRAINING["debt"]})
        model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, OK)
        self.assertIn("only one of true and false", problems_of(model, X))

    def test_lightgbm_categories_at_the_limits_of_their_type(self) -> None:
        import lightgbm

        at = np.arange(len(OK))
        for values in (
            [2**53 + 1, 2**53 + 2, 2**53, 5],
            [2**63 - 1, -(2**63)],
            np.asarray([2**64 - 1, 2**64 - 2], dtype="uint64"),
            np.arange(-128, 128, dtype="int8"),
            [2.0**53 - 1, 1.5],
        ):
            X = pd.DataFrame({"code": pd.Categorical(np.asarray(values)[at % len(values)]), "debt": TRAINING["debt"]})
            options = {"n_estimators": 5, "min_data_per_group": 5, "cat_smooth": 1, "verbose": -1}
            encoding, _ = files_of(lightgbm.LGBMClassifier(**options).fit(X, OK), X)
            self.assertEqual(len(set(encoding["codes"]["code"].values())), len(values))
            if X["code"].cat.categories.dtype.kind in "iu":
                self.assertEqual(list(encoding["codes"]["code"]), [str(v) for v in sorted(np.asarray(values).tolist())])

    def test_lightgbm_predictions_that_stop_early(self) -> None:
        import lightgbm

        X = TRAINING[["debt", "age"]]
        early = {"pred_early_stop": True, "n_estimators": 20, "verbose": -1}
        model = lightgbm.LGBMClassifier(**early).fit(X, OK)
        self.assertIn("with pred_early_stop its predict leaves out trees", problems_of(model, X))
        files_of(model.set_params(pred_early_stop=False), X)
        # After a scaler, the model becomes a graph.
        scaled = make_pipeline(median(), StandardScaler(), lightgbm.LGBMClassifier(**early)).fit(X, OK)
        self.assertIn("with pred_early_stop its predict leaves out trees", problems_of(scaled, X))

    def test_the_prediction_of_the_model_itself_counts(self) -> None:
        import catboost
        import lightgbm
        import xgboost

        X = TRAINING[["debt", "age"]]
        quiet = {"iterations": 5, "verbose": False, "allow_writing_files": False}

        def halved(kind: Any) -> Any:
            """A subclass of an estimator with other predictions than its booster."""

            def predict_proba(self: Any, data: Any, **options: Any) -> Any:
                return kind.predict_proba(self, data, **options) / 2

            return type(kind.__name__, (kind,), {"predict_proba": predict_proba})

        for kind, options in (
            (lightgbm.LGBMClassifier, {"n_estimators": 5, "verbose": -1}),
            (xgboost.XGBClassifier, {"n_estimators": 5}),
            (catboost.CatBoostClassifier, quiet),
        ):
            with self.subTest(kind.__name__):
                files_of(kind(**options).fit(X, OK), X)
                text = problems_of(halved(kind)(**options).fit(X, OK), X)
                self.assertIn("scores of its file with the encoding differ by up to", text)
        bare = catboost.CatBoost({**quiet, "loss_function": "Logloss"}).fit(X, OK)
        _, folder = files_of(bare, X)
        self.assertTrue(pd.read_csv(folder / "expected.csv")["probability"].between(0, 1).all())

    def test_large_floats_are_no_categories(self) -> None:
        import lightgbm

        for values in ([1e16, 2.0], [-(2.0**53), 2.0], np.asarray([3.4e38, 1.2], dtype="float32")):
            column = pd.Series(np.asarray(values)[np.arange(len(OK)) % 2])
            X = pd.DataFrame({"code": column.astype("category"), "debt": TRAINING["debt"]})
            model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, OK)
            self.assertIn("is a float above 2^53", problems_of(model, X))
            X = pd.DataFrame({"code": column})
            encoded = make_pipeline(branches((one_hot(), ["code"])), LogisticRegression()).fit(X, OK)
            self.assertIn("is a float above 2^53", problems_of(encoded, X))

    def test_preprocessing_becomes_the_encoding(self) -> None:
        import lightgbm

        prep = branches((median(), ["age"]), ("passthrough", ["debt"]), (ordinal(), ["branch"]))
        model = make_pipeline(prep, lightgbm.LGBMClassifier(n_estimators=5, verbose=-1)).fit(TRAINING, OK)
        encoding, folder = files_of(model, TRAINING)
        self.assertTrue((folder / "model.txt").exists())
        self.assertEqual(encoding["order"], ["age", "debt", "branch"])
        self.assertEqual(encoding["missing"], {"age": TRAINING["age"].median(), "debt": "nan", "branch": "nan"})
        self.assertEqual(encoding["unseen"], {"branch": -1})

    def test_preprocessing_in_a_graph(self) -> None:
        import catboost
        import lightgbm
        import xgboost

        prep = branches((make_pipeline(median(), StandardScaler()), ["age", "debt"]), (one_hot(), ["branch"]))
        with tempfile.TemporaryDirectory() as folder:
            for name, estimator in (
                ("lightgbm", lightgbm.LGBMClassifier(n_estimators=20, verbose=-1)),
                ("xgboost", xgboost.XGBClassifier(n_estimators=20)),
            ):
                model = make_pipeline(prep, estimator).fit(TRAINING, OK)
                card = sluice.register(model, TRAINING, OK, name, registry=folder)
                self.assertTrue(card.data["selfTest"]["passed"], name)
        cat = catboost.CatBoostClassifier(iterations=5, verbose=False, allow_writing_files=False)
        text = problems_of(make_pipeline(prep, cat).fit(TRAINING, OK), TRAINING)
        self.assertIn("steps that an encoding cannot express", text)

    def test_native_files_are_registered(self) -> None:
        import catboost
        import lightgbm
        import xgboost

        X = categories(TRAINING)
        numbers = X[["debt", "age", "balance", "owns_home"]]
        quiet = {"iterations": 20, "verbose": False, "allow_writing_files": False}
        with tempfile.TemporaryDirectory() as folder:
            for name, model, frame in (
                ("lightgbm", lightgbm.LGBMClassifier(n_estimators=20, verbose=-1), X),
                ("xgboost", xgboost.XGBClassifier(n_estimators=20, enable_categorical=True), X),
                ("catboost", catboost.CatBoostClassifier(**quiet), numbers),
            ):
                with self.subTest(name):
                    card = sluice.register(model.fit(frame, OK), frame, OK, name, registry=folder)
                    self.assertTrue(card.data["selfTest"]["passed"])


    def test_classes_in_any_order(self) -> None:
        import catboost
        import lightgbm

        X = TRAINING[["debt", "age"]]
        tiers = np.digitize(X["debt"], [60_000, 150_000])
        quiet = {"iterations": 10, "verbose": False, "allow_writing_files": False}
        with tempfile.TemporaryDirectory() as folder:
            for name, model, labels in (
                ("texts", lightgbm.LGBMClassifier(n_estimators=10, verbose=-1), ["1", "2", "10"]),
                ("numbers", lightgbm.LGBMClassifier(n_estimators=10, verbose=-1), [1, 2, 10]),
                ("named", catboost.CatBoostClassifier(**quiet, class_names=["mid", "high", "low"]), ["low", "mid", "high"]),
            ):
                with self.subTest(name):
                    y = pd.Series(np.asarray(labels)[tiers], name="tier")
                    card = sluice.register(model.fit(X, y), X, y, name, registry=folder)
                    self.assertTrue(card.data["selfTest"]["passed"])
                    self.assertEqual([str(c) for c in card.manifest["classes"]], [str(c) for c in model.classes_])


class Exactness(unittest.TestCase):
    """Conversions that are off near thresholds are found before registering."""

    def test_histogram_boosting_near_its_thresholds(self) -> None:
        # Cents of amounts above 131,072 have no float32 of their own.
        X = pd.DataFrame({"debt": np.round(np.random.default_rng(5).uniform(1e6, 1e6 + 40, 800), 2)})
        y = (np.floor(X["debt"] * 50) % 2).astype(int).rename("ok")
        model = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=63, min_samples_leaf=2).fit(X, y)
        _, folder = files_of(model, X, y)
        import onnxruntime

        session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
        [*_, scores] = session.run(None, {session.get_inputs()[0].name: X[["debt"]].to_numpy()})
        self.assertLess(np.abs(scores - model.predict_proba(X)).max(), 1e-6)
        self.assertGreater(np.abs(model.predict_proba(X.astype("float32")) - model.predict_proba(X)).max(), 0.01)

    def test_float32_numbers_near_thresholds(self) -> None:
        rng = np.random.default_rng(7)
        X = pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500)})
        y = pd.Series((X["a"] + rng.normal(size=500) > 0).astype(int), name="ok")
        bins = make_pipeline(SimpleImputer(), KBinsDiscretizer(6), LogisticRegression())
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("float32", "Float32") if CAMPAIGN else ("Float32",):
                for at, model in enumerate((HistGradientBoostingClassifier(max_iter=8), bins)):
                    with self.subTest(kind, model=at):
                        frame = X.astype({"a": kind, "b": "float32"})
                        card = sluice.register(model.fit(frame, y), frame, y, f"{kind.lower()}-{at}", registry=folder)
                        self.assertTrue(card.data["selfTest"]["passed"])
        # scikit-learn scales float32 numbers in float32.
        scaled = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=8))
        frame = X.astype("float32")
        self.assertIn('Fit on float64 numbers: X.astype({"a": "float64"', problems_of(scaled.fit(frame, y), frame, y))
        files_of(scaled.fit(X, y), X, y)

    def test_one_column(self) -> None:
        import lightgbm

        X = TRAINING[["debt"]]
        model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, OK)
        with tempfile.TemporaryDirectory() as folder:
            card = sluice.register(model, X, OK, "one", registry=folder)
        self.assertEqual([column["name"] for column in card.manifest["columns"]], ["debt"])

    def test_float32_and_float16_numbers_in_lightgbm(self) -> None:
        import lightgbm

        rng = np.random.default_rng(0)
        whole = pd.DataFrame({"debt": np.round(rng.uniform(0, 200_000, 1200), 2), "rate": rng.normal(size=1200)})
        y = pd.Series((whole["debt"] // 1000 % 2 + (whole["rate"] > 0) > 1).astype(int), name="ok")
        for kind in ("float32", "float16", "Float32", "float64") if CAMPAIGN else ("float16", "Float32"):
            with self.subTest(kind):
                X = whole.assign(debt=whole["debt"] / 10).astype({"debt": kind, "rate": "float32"})
                model = lightgbm.LGBMClassifier(
                    n_estimators=12, max_bin=4000, min_data_in_bin=1, min_child_samples=5, verbose=-1
                ).fit(X, y)
                _, folder = files_of(model, X, y)
                own = model.booster_.model_to_string().splitlines()
                cuts = [float(t) for line in own if line.startswith("threshold=") for t in line[10:].split()]
                near = pd.DataFrame({"debt": cuts, "rate": 0.5}).astype(X.dtypes)
                near = pd.concat([near, near.assign(rate=near["debt"].astype("float32"))])
                # The numbers that a CSV file of the frame has.
                texts = pd.read_csv(io.StringIO(near.to_csv(index=False))).to_numpy(float)
                scores = lightgbm.Booster(model_file=folder / "model.txt").predict(texts)
                self.assertLess(np.abs(scores - model.predict_proba(near)[:, 1]).max(), 1e-12)

    def test_missing_values_in_trees_that_saw_none(self) -> None:
        import onnxruntime

        X, y = TRAINING[["debt", "term"]], (TRAINING["debt"] * TRAINING["term"] > 3e6).astype(int).rename("ok")
        gaps = X.astype(float).mask(np.random.default_rng(1).random(X.shape) < 0.3)
        for model in (
            RandomForestClassifier(9, max_depth=6),
            GridSearchCV(DecisionTreeClassifier(), {"max_depth": [5]}),
        ):
            _, folder = files_of(model.fit(X, y), X, y)
            session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
            cells = {"column_0": gaps[["debt"]].to_numpy("float32"), "column_1": gaps[["term"]].to_numpy("float32")}
            [*_, scores] = session.run(None, cells)
            self.assertLess(np.abs(scores - model.predict_proba(gaps)).max(), 1e-6)

    def test_histogram_boosting_of_three_classes(self) -> None:
        X = TRAINING[["debt", "age"]]
        y = pd.Series(np.digitize(X["debt"], [60_000, 150_000]), name="tier")
        model = HistGradientBoostingClassifier(max_iter=10).fit(X, y)
        with tempfile.TemporaryDirectory() as folder:
            card = sluice.register(model, X, y, registry=folder)
        self.assertEqual((card.manifest["task"], card.manifest["classes"]), ("multiclass", [0, 1, 2]))
        self.assertTrue(card.data["selfTest"]["passed"])

    def test_ordinal_codes_of_numbers(self) -> None:
        X = pd.DataFrame(
            {"term": TRAINING["term"].astype(float).where(TRAINING["owns_home"]), "debt": TRAINING["debt"]}
        )
        prep = branches((OrdinalEncoder(encoded_missing_value=math.nan), ["term"]), ("passthrough", ["debt"]))
        model = make_pipeline(prep, HistGradientBoostingClassifier(max_iter=10, categorical_features=None)).fit(X, OK)
        encoding, _ = files_of(model, X)
        self.assertEqual(encoding["codes"]["term"]["12"], 0)
        self.assertNotIn("12.0", encoding["codes"]["term"])
        self.assertEqual(encoding["missing"]["term"], "nan")
        self.assertEqual(encoding["unseen"]["term"], "error")


if __name__ == "__main__":
    if "SLUICE_COMMAND" not in os.environ:
        sys.exit("set SLUICE_COMMAND")
    unittest.main()
