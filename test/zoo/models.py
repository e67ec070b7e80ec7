"""The models of the zoo: how each is trained and exported, and what its library predicts."""
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable

import catboost as cb
import lightgbm as lgb
import numpy as np
import onnx
import onnx.helper
import skl2onnx.common._container
import xgboost as xgb
from onnxmltools.convert import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm as lightgbm_operator
from skl2onnx import convert_sklearn, to_onnx, update_registered_converter
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (ExtraTreesClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier,
                              IsolationForest, RandomForestClassifier)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from applications import BOOLEANS, CATEGORIES, COLUMNS, NUMBERS
from model_inputs import ColumnInputs, Matrix

SEED = 31
EIGHT = ["amount", "term", "income", "monthly_payment", "occupation_type", "had_arrears", "had_credits_before", "banned"]
TEN = EIGHT[:5] + ["source_type", "partner_id", "had_arrears", "had_credits_before", "pension_contributions"]
FILL = {"amount": 30000.0, "term": 12.0, "income": 30000.0, "monthly_payment": 3000.0, "pt_income": 0.0}
MATRIX_MISSING = "NaN in the matrix"
MATRIX_UNSEEN = "the code -1"
PIPE_MISSING = "numbers: NaN, the pipeline puts the median of the training rows; categories: a text of their own; booleans: see register.inputs"
PIPE_UNSEEN = "the text itself goes in: OneHotEncoder(handle_unknown='ignore') turns it into zeros"


@dataclass
class Model:
    name: str
    inputs: Any
    onnx: Any
    library: str
    family: str  # linear, tree, neural, calibrated, isolation
    task: str  # binary, multiclass, regression, score
    fitted: Any  # the library's own object
    predict: Callable  # assembled inputs → [rows, classes] or [rows]
    outcome: str = "ok"
    classes: list = field(default_factory=lambda: [0, 1])
    positive: Any = 1
    tolerance: float = 1e-6
    deviation: str = ""  # why the tolerance is wider than 1e-6, or is not met
    expect: str = "served"
    reason: str = ""
    missing: str = ""
    unseen: str = ""
    fixed_batch: bool = False
    effects: str = ""  # "", linear, tree, brute
    space: str = ""  # log_odds, probability, value
    path: Callable | None = None  # rows → library's own path-dependent values, see effects.py
    brute: bool = False
    effects_tolerance: float = 1e-6
    notes: str = ""


def plain(value):
    """NumPy scalars as Python numbers: what protobuf takes."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, np.ndarray)):
        return [plain(v) for v in value]
    return value


def repair_hist_gradient_boosting_export():
    """skl2onnx 1.20 hands NumPy booleans of HistGradientBoosting to onnx, which refuses them; users patch it like this."""
    make = onnx.helper.make_node

    def make_node(*args, **kwargs):
        try:
            return make(*args, **kwargs)
        except (TypeError, ValueError):
            return make(*args, **{k: plain(v) for k, v in kwargs.items()})

    onnx.helper.make_node = make_node
    skl2onnx.common._container.make_node = make_node


def outcome(rows, name):
    if name == "ok":
        return (rows.ok == "true").astype(int).values
    return rows.loss_rate.astype(float).values if name == "loss_rate" else rows.grade.values.astype(str)


def pipeline(inputs, estimator, scale, bins=0):
    """Numbers imputed (and scaled, or cut into bins), categories one-hot, booleans as they are."""
    of_type = lambda *t: [c for c, r in inputs.rules.items() if r["type"] in t]
    numbers = [c for c in of_type("float32", "float64", "int64") if c in NUMBERS]
    steps = [("impute", SimpleImputer(strategy="median"))] if "float64" not in {inputs.rules[c]["type"] for c in numbers} else []
    if bins:
        steps.append(("bins", KBinsDiscretizer(bins, encode="onehot-dense", strategy="quantile", quantile_method="averaged_inverted_cdf")))
    elif scale or not steps:
        steps.append(("scale", StandardScaler()))
    texts = of_type("string")
    flags = [c for c in inputs.columns if c not in numbers + texts]
    parts = [("num", Pipeline(steps), numbers)] if numbers else []
    parts += [("cat", OneHotEncoder(handle_unknown="ignore"), texts)] if texts else []
    parts += [("flag", "passthrough", flags)] if flags else []
    return Pipeline([("prep", ColumnTransformer(parts)), ("clf", estimator)])


def proba(fitted):
    return lambda X: fitted.predict_proba(X)


def logistic(train):
    """One logistic pipeline, exported in every way that changes the outputs or the batch; and others on other inputs."""
    s = ColumnInputs(COLUMNS)
    y = outcome(train, "ok")
    p = pipeline(s, LogisticRegression(max_iter=3000, C=.5), True).fit(s.assemble(s.arrays(train)), y)
    common = dict(inputs=s, library="scikit-learn", family="linear", task="binary", fitted=p, predict=proba(p),
                  missing=PIPE_MISSING, unseen=PIPE_UNSEEN)
    export = lambda **o: convert_sklearn(p, "credit_logistic", s.types(), options={id(p): o} if o else None)
    yield Model("skl-logistic-zipmap", onnx=export(), effects="linear", space="log_odds",
                notes="The default export: the probabilities are a ZipMap.", **common)
    yield Model("skl-logistic-tensor", onnx=export(zipmap=False), **common)
    yield Model("skl-logistic-zipmap-columns", onnx=export(zipmap="columns"),
                notes="One output [rows] for each class, named after it.", **common)
    yield Model("skl-logistic-raw-scores", expect="refused",
                onnx=convert_sklearn(p, "credit_logistic", s.types(), options={id(p.named_steps["clf"]): {"zipmap": False, "raw_scores": True}}),
                reason="The output named probabilities holds log-odds: some lie outside 0 to 1, and no two of a row add up to 1.",
                deviation="log-odds are compared with probabilities", **common)
    yield Model("skl-logistic-fixed-batch", onnx=convert_sklearn(p, "credit_logistic", s.types(1), options={id(p): {"zipmap": False}}),
                fixed_batch=True, notes="Inputs are [1, 1]: one row a run.", **common)

    words = np.where(y == 1, "good", "bad")
    q = pipeline(s, LogisticRegression(max_iter=3000, C=.5), True).fit(s.assemble(s.arrays(train)), words)
    yield Model("skl-logistic-string-labels", onnx=convert_sklearn(q, "credit_logistic_words", s.types()),
                **{**common, "fitted": q, "predict": proba(q), "classes": ["bad", "good"], "positive": "good"})

    d = ColumnInputs(COLUMNS, number="float64", boolean="float64", number_missing=FILL)
    q = pipeline(d, LogisticRegression(max_iter=3000, C=.5), True).fit(d.assemble(d.arrays(train)), y)
    yield Model("skl-logistic-double", onnx=convert_sklearn(q, "credit_logistic_double", d.types(), options={id(q): {"zipmap": False}}),
                **{**common, "inputs": d, "fitted": q, "predict": proba(q),
                   "missing": "numbers: fixed values, see register.inputs (an Imputer of doubles does not load in ONNX Runtime)"})

    q = Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler()), ("clf", LogisticRegression(C=.5))])
    m = Matrix(NUMBERS[:4] + BOOLEANS, "X")
    q.fit(m.assemble(m.arrays(train)), y)
    yield Model("skl-logistic-matrix", onnx=convert_sklearn(q, "credit_logistic_matrix", m.types(), options={id(q): {"zipmap": False}}),
                **{**common, "inputs": m, "fitted": q, "predict": proba(q), "effects": "linear", "space": "log_odds",
                   "missing": MATRIX_MISSING + "; the pipeline puts the median", "unseen": "no categories"})

    e = ColumnInputs(["amount", "income"] + CATEGORIES[:3], number="float64")
    q = Pipeline([("prep", ColumnTransformer([("num", SimpleImputer(), ["amount", "income"]),
                                              ("cat", OneHotEncoder(handle_unknown="ignore"), CATEGORIES[:3])])),
                  ("clf", LogisticRegression(max_iter=3000, C=.5))]).fit(e.assemble(e.arrays(train)), y)
    yield Model("skl-logistic-double-imputer", expect="refused", reason="ONNX Runtime does not load an Imputer of doubles.",
                onnx=convert_sklearn(q, "credit_logistic_double_imputer", e.types(), options={id(q): {"zipmap": False}}),
                **{**common, "inputs": e, "fitted": q, "predict": proba(q)})


def linear_values(train):
    """Regressions: the loss rate on binned numbers as scorecards have them, and the points of a scorecard."""
    s = ColumnInputs(COLUMNS)
    X = s.assemble(s.arrays(train))
    p = pipeline(s, LinearRegression(), True, bins=6).fit(X, outcome(train, "loss_rate"))
    common = dict(inputs=s, library="scikit-learn", family="linear", task="regression", classes=[], positive=None,
                  missing=PIPE_MISSING, unseen=PIPE_UNSEEN, effects="linear", space="value")
    yield Model("skl-linear-bins", onnx=convert_sklearn(p, "loss_bins", s.types()), fitted=p, predict=p.predict,
                outcome="loss_rate", **common)
    t = ColumnInputs(EIGHT)
    q = pipeline(t, LogisticRegression(max_iter=3000), True, bins=5).fit(t.assemble(t.arrays(train)), outcome(train, "ok"))
    # 600 points are odds of 20 to 1, and 40 points double the odds
    factor = 40 / np.log(2)
    points = LinearRegression()
    points.coef_ = q.named_steps["clf"].coef_[0] * factor
    points.intercept_ = float(600 + factor * (q.named_steps["clf"].intercept_[0] - np.log(20)))
    points.n_features_in_ = len(points.coef_)
    card = Pipeline([("prep", q.named_steps["prep"]), ("clf", points)])
    yield Model("skl-scorecard-points", onnx=convert_sklearn(card, "scorecard_points", t.types()), fitted=card, predict=card.predict,
                tolerance=1e-3, deviation="the value is some 600 points, of which float32 holds 6e-5 apart",
                brute=True, effects_tolerance=1e-4, **{**common, "inputs": t})


def sklearn_trees(train):
    y = outcome(train, "ok")
    common = dict(library="scikit-learn", family="tree", task="binary", missing=PIPE_MISSING, unseen=PIPE_UNSEEN, effects="tree")

    s = ColumnInputs(COLUMNS, boolean="string", text_missing="missing")
    p = pipeline(s, RandomForestClassifier(24, max_depth=6, min_samples_leaf=12, random_state=SEED), False)
    p.fit(s.assemble(s.arrays(train)), y)
    yield Model("skl-forest-string-booleans", inputs=s, onnx=convert_sklearn(p, "forest", s.types()), fitted=p, predict=proba(p),
                space="probability", **common)

    s = ColumnInputs(COLUMNS, boolean="int64", whole=["term"])
    p = pipeline(s, GradientBoostingClassifier(n_estimators=60, max_depth=3, learning_rate=.12, random_state=SEED), False)
    p.fit(s.assemble(s.arrays(train)), y)
    yield Model("skl-boosting-int64", inputs=s, onnx=convert_sklearn(p, "boosting_int64", s.types()), fitted=p, predict=proba(p),
                space="log_odds", **common)

    s = ColumnInputs(TEN, boolean="bool")
    p = pipeline(s, GradientBoostingClassifier(n_estimators=40, max_depth=3, learning_rate=.12, random_state=SEED), False)
    p.fit(s.assemble(s.arrays(train)), y)
    yield Model("skl-boosting-bool", inputs=s, onnx=convert_sklearn(p, "boosting_bool", s.types(), options={id(p): {"zipmap": False}}),
                fitted=p, predict=proba(p), space="log_odds", brute=True, **common)

    s = ColumnInputs(COLUMNS)
    p = pipeline(s, RandomForestClassifier(20, max_depth=6, min_samples_leaf=12, bootstrap=False, random_state=SEED), False)
    p.fit(s.assemble(s.arrays(train)), outcome(train, "grade"))
    yield Model("skl-forest-multiclass", inputs=s, onnx=convert_sklearn(p, "forest_grades", s.types()), fitted=p, predict=proba(p),
                space="probability", outcome="grade", classes=["A", "B", "C"], positive=None, **{**common, "task": "multiclass"})

    s = ColumnInputs(EIGHT)
    p = pipeline(s, DecisionTreeClassifier(max_depth=6, min_samples_leaf=20, random_state=SEED), False)
    p.fit(s.assemble(s.arrays(train)), y)
    yield Model("skl-decision-tree", inputs=s, onnx=convert_sklearn(p, "tree", s.types(), options={id(p): {"zipmap": False}}),
                fitted=p, predict=proba(p), space="probability", brute=True, **common)

    common.update(missing=MATRIX_MISSING, unseen=MATRIX_UNSEEN)
    m = Matrix(COLUMNS, "X")
    X = m.assemble(m.arrays(train))
    h = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, learning_rate=.1, random_state=SEED).fit(X, y)
    yield Model("skl-histboosting-matrix", inputs=m, onnx=convert_sklearn(h, "histboosting", m.types()), fitted=h, predict=proba(h),
                space="log_odds", **common)

    m = Matrix(NUMBERS + CATEGORIES[:4] + BOOLEANS, "X", missing={**FILL, "*": -1}, unseen={"*": "missing"}, booleans={"banned": [0, 5]})
    x = ExtraTreesClassifier(24, max_depth=7, min_samples_leaf=10, random_state=SEED).fit(m.assemble(m.arrays(train)), y)
    yield Model("skl-extra-trees-matrix", inputs=m, onnx=convert_sklearn(x, "extra_trees", m.types(), options={id(x): {"zipmap": False}}),
                fitted=x, predict=proba(x), space="probability",
                **{**common, "missing": "numbers: fixed values; everything else: -1 (codes.json)", "unseen": "as if missing"})


def other_sklearn(train):
    y = outcome(train, "ok")
    s = ColumnInputs(COLUMNS)
    X = s.assemble(s.arrays(train))
    common = dict(library="scikit-learn", task="binary", missing=PIPE_MISSING, unseen=PIPE_UNSEEN)
    base = GradientBoostingClassifier(n_estimators=25, max_depth=3, random_state=SEED)
    p = pipeline(s, CalibratedClassifierCV(base, method="isotonic", cv=3), False).fit(X, y)
    yield Model("skl-calibrated-isotonic", inputs=s, fitted=p, predict=proba(p), family="calibrated", expect="warned",
                onnx=convert_sklearn(p, "isotonic", s.types(), options={id(p): {"zipmap": False}}),
                reason="The export takes the value of the nearest knot of the isotonic curve, where scikit-learn interpolates between two: "
                       "rows in between are wrong (1 of the clean rows, 6 of the dirty ones). The self-test sees it.",
                deviation="the export is wrong, see measured", **common)

    e = ColumnInputs(EIGHT)
    X = e.assemble(e.arrays(train))
    p = pipeline(e, CalibratedClassifierCV(LogisticRegression(max_iter=2000), method="sigmoid", cv=3), True).fit(X, y)
    yield Model("skl-calibrated-sigmoid", inputs=e, fitted=p, predict=proba(p), family="calibrated",
                onnx=convert_sklearn(p, "sigmoid", e.types()), effects="brute", space="probability", brute=True, **common)

    p = pipeline(e, MLPClassifier((12, 6), max_iter=400, random_state=SEED, alpha=.01), True).fit(X, y)
    yield Model("skl-mlp", inputs=e, fitted=p, predict=proba(p), family="neural", onnx=convert_sklearn(p, "mlp", e.types()),
                effects="brute", space="probability", brute=True, **common)

    m = Matrix(NUMBERS[:4] + BOOLEANS[7:], "X", missing={**{c: FILL[c] for c in NUMBERS[:4]}, "*": 0})
    x = IsolationForest(n_estimators=25, max_samples=64, contamination=.03, random_state=SEED).fit(m.assemble(m.arrays(train)))
    yield Model("skl-isolation-forest", inputs=m, fitted=x, predict=x.decision_function, family="isolation", library="scikit-learn",
                onnx=to_onnx(x, m.assemble(m.arrays(train[:1])).astype(np.float32), target_opset={"": 18, "ai.onnx.ml": 3}),
                task="score", outcome=None, classes=[], positive=None, effects="brute", space="value", brute=True,
                missing="fixed values (codes.json)", unseen="no categories",
                notes="value is decision_function, which is the output `scores`; below 0 is an outlier.")


def lightgbm_models(train):
    y = outcome(train, "ok")
    m = Matrix(COLUMNS, "input")
    X = m.assemble(m.arrays(train))
    base = dict(n_estimators=60, num_leaves=12, learning_rate=.1, min_child_samples=20, random_state=SEED, n_jobs=1,
                deterministic=True, force_row_wise=True, verbose=-1)
    common = dict(library="lightgbm", family="tree", task="binary", missing=MATRIX_MISSING, unseen=MATRIX_UNSEEN,
                  effects="tree", space="log_odds")

    def export(fitted, name, inputs=m, **o):
        return convert_lightgbm(fitted, name=name, target_opset=15, **o,
                                initial_types=[("input", MlFloat([None, len(inputs.columns)]))])

    f = lgb.LGBMClassifier(**base).fit(X, y)
    one = dict(inputs=m, fitted=f, predict=proba(f))
    yield Model("lightgbm-zipmap", onnx=export(f, "lightgbm"), **one, **common)
    yield Model("lightgbm-tensor", onnx=export(f, "lightgbm", zipmap=False), **{**one, "inputs": Matrix(COLUMNS, "input", unseen={})},
                **{**common, "effects": "", "space": "", "unseen": "an error: the row is refused"})

    g = Matrix(COLUMNS, "input", unseen={"occupation_type": 99, "partner_id": "missing", "*": -1})
    f = lgb.LGBMClassifier(**{**base, "subsample": .7, "subsample_freq": 1, "colsample_bytree": .7}).fit(X, y)
    yield Model("lightgbm-bagged", inputs=g, fitted=f, predict=proba(f), onnx=export(f, "lightgbm_bagged", zipmap=False),
                **{**common, "unseen": "occupation_type: the code 99; partner_id: as if missing; others: the code -1"})

    w = Matrix(COLUMNS, "input", rounded=False)
    f = lgb.LGBMClassifier(**base).fit(w.assemble(w.arrays(train)), y)
    yield Model("lightgbm-float64-trap", inputs=w, fitted=f, predict=proba(f), onnx=export(f, "lightgbm_float64", zipmap=False),
                expect="warned", reason="The self-test sees that some rows get another prediction than in LightGBM.",
                deviation="trained and asked with float64 numbers: amounts of 499999.99 and 500000 are one number in float32, "
                          "so rows of 499999.99 take another branch in ONNX (4 of the clean rows, 1 of the dirty ones)", **{**common, "effects": "", "space": ""})

    t = Matrix(TEN, "input")
    index = [t.columns.index(c) for c in t.categories]
    f = lgb.LGBMClassifier(**{**base, "n_estimators": 25, "num_leaves": 8, "cat_smooth": 5, "min_data_per_group": 20})
    f.fit(t.assemble(t.arrays(train)), y, categorical_feature=index)
    yield Model("lightgbm-native-categories", inputs=t, fitted=f, predict=proba(f), onnx=export(f, "lightgbm_native", t), brute=True,
                notes="A split on a set of categories is a chain of BRANCH_EQ nodes in ONNX, each with a copy of the subtree.", **common)

    b = lgb.train({**{k: v for k, v in base.items() if k != "n_estimators"}, "objective": "binary"},
                  lgb.Dataset(X, label=1 - y), num_boost_round=40)
    yield Model("lightgbm-booster-positive-first", inputs=m, fitted=b, predict=lambda X: np.column_stack([1 - b.predict(X), b.predict(X)]),
                onnx=export(b, "lightgbm_booster"), positive=0,
                notes="Trained by lgb.train on 1 - ok: class 1 is a loss, and the positive class is the first, 0.", **common)

    s = ColumnInputs(COLUMNS)
    update_registered_converter(lgb.LGBMClassifier, "LightGbmLGBMClassifier", calculate_linear_classifier_output_shapes,
                                lightgbm_operator, options={"nocl": [True, False], "zipmap": [True, False, "columns"]})
    p = pipeline(s, lgb.LGBMClassifier(**{**base, "n_estimators": 50}), False)
    p.fit(s.assemble(s.arrays(train)), y)
    yield Model("lightgbm-pipeline", inputs=s, fitted=p, predict=proba(p), **{**common, "missing": PIPE_MISSING, "unseen": PIPE_UNSEEN},
                onnx=convert_sklearn(p, "lightgbm_pipeline", s.types(), target_opset={"": 15, "ai.onnx.ml": 3}))

    r = Matrix(COLUMNS[::-1], "input", missing={"term": 12, "had_arrears": 0.5, "marital_status": 7},
               booleans={"had_arrears": [1, 0], "had_credits_before": [-1, 1]})
    f = lgb.LGBMRegressor(**base).fit(r.assemble(r.arrays(train)), outcome(train, "loss_rate"))
    value = {**common, "task": "regression", "space": "value", "missing": "term, had_arrears and marital_status by fixed numbers (codes.json); others NaN",
             "notes": "The matrix has the columns in the reverse order, and two booleans by other numbers than 0 and 1."}
    yield Model("lightgbm-regressor", inputs=r, fitted=f, predict=f.predict, onnx=export(f, "lightgbm_regressor"), outcome="loss_rate",
                classes=[], positive=None, **value)

    f = lgb.LGBMClassifier(**{**base, "n_estimators": 20, "num_leaves": 8}).fit(X, np.searchsorted(["A", "B", "C"], outcome(train, "grade")))
    yield Model("lightgbm-multiclass", inputs=m, fitted=f, predict=proba(f), onnx=export(f, "lightgbm_grades"), outcome="grade",
                classes=[0, 1, 2], positive=None, notes="The grades A, B, C are the classes 0, 1, 2.", **{**common, "task": "multiclass"})


def xgboost_models(train):
    y = outcome(train, "ok")
    m = Matrix(COLUMNS, "float_input")
    X = m.assemble(m.arrays(train))
    base = dict(n_estimators=50, max_depth=4, learning_rate=.12, random_state=SEED, n_jobs=1, tree_method="hist")
    common = dict(library="xgboost", family="tree", task="binary", missing=MATRIX_MISSING, unseen=MATRIX_UNSEEN,
                  effects="tree", space="log_odds", effects_tolerance=2e-6)  # it adds up in float32

    def export(fitted, inputs=m):
        return convert_xgboost(fitted, name="xgboost", target_opset=15,
                               initial_types=[("float_input", MlFloat([None, len(inputs.columns)]))])

    f = xgb.XGBClassifier(**base, base_score=.5).fit(X, y)
    yield Model("xgboost-base-half", inputs=m, fitted=f, predict=proba(f), onnx=export(f), **common)
    f = xgb.XGBClassifier(**base).fit(X, y)
    yield Model("xgboost-base-auto", inputs=m, fitted=f, predict=proba(f), onnx=export(f), **common)
    t = Matrix(TEN, "float_input")
    f = xgb.XGBRegressor(**base).fit(t.assemble(t.arrays(train)), outcome(train, "loss_rate"))
    yield Model("xgboost-regressor", inputs=t, fitted=f, predict=f.predict, onnx=export(f, t), outcome="loss_rate", classes=[], positive=None,
                brute=True, **{**common, "task": "regression", "space": "value"})
    f = xgb.XGBClassifier(**{**base, "n_estimators": 15, "max_depth": 3}).fit(X, np.searchsorted(["A", "B", "C"], outcome(train, "grade")))
    yield Model("xgboost-multiclass", inputs=m, fitted=f, predict=proba(f), onnx=export(f), outcome="grade", classes=[0, 1, 2],
                positive=None, **{**common, "task": "multiclass", "effects": "", "space": ""})


def catboost_models(train):
    y = outcome(train, "ok")
    m = Matrix(COLUMNS, "features")
    X = m.assemble(m.arrays(train)).astype(np.float32)
    base = dict(iterations=60, depth=4, learning_rate=.15, random_seed=SEED, verbose=0, thread_count=1, allow_writing_files=False)
    common = dict(library="catboost", family="tree", task="binary", inputs=m, missing=MATRIX_MISSING, unseen=MATRIX_UNSEEN,
                  effects="tree", space="log_odds")

    def export(fitted):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            fitted.save_model(path, format="onnx", export_parameters={
                "onnx_domain": "ai.example", "onnx_model_version": 1, "onnx_doc_string": "credit", "onnx_graph_name": "credit"})
            model = onnx.load(path)
        fixed = {"model_guid": "0", "train_finish_time": "2000-01-01T00:00:00Z", "catboost_version_info": cb.__version__}
        for p in model.metadata_props:  # else the file would differ each time
            p.value = fixed.get(p.key, p.value)
        model.producer_version = cb.__version__
        model.metadata_props.sort(key=lambda p: p.key)
        return model

    as_float = lambda f: lambda X: f(np.asarray(X, dtype=np.float32))
    f = cb.CatBoostClassifier(**base).fit(X, y)
    yield Model("catboost-int-labels", fitted=f, predict=as_float(f.predict_proba), onnx=export(f), **common)
    f = cb.CatBoostClassifier(**base).fit(X, np.where(y == 1, "good", "bad"))
    yield Model("catboost-string-labels", fitted=f, predict=as_float(f.predict_proba), onnx=export(f), classes=["bad", "good"],
                positive="good", **{**common, "effects": "", "space": ""})
    f = cb.CatBoostRegressor(**base).fit(X, outcome(train, "loss_rate"))
    yield Model("catboost-regressor", fitted=f, predict=as_float(f.predict), onnx=export(f), outcome="loss_rate", classes=[], positive=None,
                **{**common, "task": "regression", "space": "value"})


GROUPS = [logistic, linear_values, sklearn_trees, other_sklearn, lightgbm_models, xgboost_models, catboost_models]
