"""Trains the bundled model on generated applications, and for the tests a package with one ONNX input per column.

    python train.py --training-data train.csv --package credit-default/1 [--columns-package DIR]
"""
import argparse, csv, hashlib, os

import lightgbm as lgb
import numpy as np
import onnxruntime as ort
import pandas as pd
import yaml
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

NUMBERS = ["amount", "term", "income", "monthly_payment", "pt_income"]
CATEGORIES = ["source_type", "remittance_type", "occupation_type", "marital_status",
              "credit_product_id", "verificator_id", "partner_id"]
TRUE, FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]
HELD_OUT, SELF_TEST = 10_000, 200
REASONS = {
    "amount": ("R01", "The amount requested is high"),
    "income": ("R02", "Income is low or could not be established"),
    "monthly_payment": ("R03", "The monthly payment is high"),
    "pt_income": ("R04", "Additional income is low or could not be established"),
    "term": ("R05", "The term requested"),
    "occupation_type": ("R06", "Type of employment"),
    "pension_contributions": ("R07", "Pension contributions could not be established"),
    "criminal_record": ("R08", "Criminal record"),
    "add_info_fraud": ("R09", "Information given could not be verified"),
    "add_info_inadequate": ("R10", "Information given was inadequate"),
    "had_arrears": ("R11", "Past arrears with us"),
    "had_credits_before": ("R12", "Length of the credit history with us"),
    "has_active_credit": ("R13", "Credits still being repaid"),
    "banned": ("R14", "Listed as not eligible"),
    "credit_product_id": ("R15", "The credit product requested"),
    "remittance_type": ("R16", "The way of payment requested"),
    "add_income_pension": ("R17", "Additional income from a pension"),
}


class Flow(dict):
    """A mapping written on one line."""


class Key(str):
    """A key always written in quotes: YAML 1.2 reads a bare 008 as a number, and PyYAML quotes by the rules of YAML 1.1."""


yaml.SafeDumper.add_representer(Key, lambda d, v: d.represent_scalar("tag:yaml.org,2002:str", v, style='"'))
yaml.SafeDumper.ignore_aliases = lambda *_: True
yaml.SafeDumper.add_representer(Flow, lambda d, v: d.represent_mapping("tag:yaml.org,2002:map", v.items(), flow_style=True))


def key(text):
    return Key(text) if text[0].isdigit() else text


def write_yaml(path, value):
    with open(path, "w", encoding="utf-8") as f:
        yaml.safe_dump(value, f, sort_keys=False, allow_unicode=True, width=118)


def write_package(folder, manifest, model, rows, expected, background):
    os.makedirs(folder, exist_ok=True)
    # The converters list operator sets in hash order; sorting makes the bytes of the model reproducible.
    operators = sorted(model.opset_import, key=lambda o: o.domain, reverse=True)
    del model.opset_import[:]
    model.opset_import.extend(operators)
    data = model.SerializeToString()
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(data)
    manifest["onnx"]["sha256"] = hashlib.sha256(data).hexdigest()
    write_yaml(os.path.join(folder, "model.yaml"), manifest)
    rows.to_csv(os.path.join(folder, "selftest.csv"), index=False, lineterminator="\n")
    background.to_csv(os.path.join(folder, "background.csv"), index=False, lineterminator="\n")
    with open(os.path.join(folder, "selftest-expected.csv"), "w") as f:
        f.write("probability\n" + "".join(f"{p:.17g}\n" for p in expected))
    seal(folder)
    print(folder, len(data), "bytes")


def seal(folder):
    """Writes package.lock: without it, or with another one, nothing says that the files are these."""
    names = sorted(n for n in os.listdir(folder) if not n.startswith(".") and n not in ("package.lock", "model.sig"))
    with open(os.path.join(folder, "package.lock"), "w", encoding="utf-8", newline="\n") as lock:
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                lock.write(f"{hashlib.sha256(f.read()).hexdigest()}  {name}\n")


def matrix(rows, columns, codes):
    """float32-rounded features: numbers, 1/0 for booleans, codes for categories (unseen -1), NaN for missing."""
    out = []
    for c in columns:
        if c in NUMBERS:
            v = [np.nan if x == "" else float(x) for x in rows[c]]
        elif c in CATEGORIES:
            v = [np.nan if x == "" else codes[c].get(x, -1) for x in rows[c]]
        else:
            v = [np.nan if x == "" else float(x in TRUE) for x in rows[c]]
        out.append(np.array(v, dtype=np.float64))
    return np.column_stack(out).astype(np.float32)


def baseline(rows, columns, scores):
    result = {}
    for c in columns:
        present = rows[c][rows[c] != ""]
        entry = {"counts": None, "missing": int((rows[c] == "").sum())}
        if c in NUMBERS:
            v = present.astype(float)
            # A value equal to an edge belongs to the bin on its right, as in Sluice.
            edges = sorted(set(float(x) for x in np.quantile(v, np.arange(.1, 1, .1)) if x > v.min()))
            entry["edges"] = edges
            entry["counts"] = [int(n) for n in np.bincount(np.searchsorted(edges, v, side="right"), minlength=len(edges) + 1)]
            entry["min"], entry["max"] = float(v.min()), float(v.max())
        else:
            entry["counts"] = {key(k): int(n) for k, n in sorted(present.value_counts().items())}
            if c in CATEGORIES:
                entry["unseen"] = 0
        result[c] = Flow(entry)
    edges = [round(x, 1) for x in np.arange(.1, 1, .1).tolist()]
    counts = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=10)
    return {"rows": len(rows), "columns": result, "score": Flow(edges=edges, counts=[int(n) for n in counts])}


def train_default(rows, y, columns, folder):
    codes = {c: {v: i for i, v in enumerate(sorted(set(rows[c]) - {""}))} for c in CATEGORIES}
    X = matrix(rows, columns, codes)
    fit, held = slice(0, -HELD_OUT), slice(-HELD_OUT, None)
    model = lgb.LGBMClassifier(n_estimators=180, num_leaves=31, learning_rate=.05, min_child_samples=100, subsample=.8,
                               subsample_freq=1, colsample_bytree=.6, reg_lambda=5, random_state=11, n_jobs=1,
                               deterministic=True, force_row_wise=True, verbose=-1)
    # LightGBM and ONNX must get the same numbers, so values are rounded to float32.
    model.fit(X[fit].astype(np.float64), y[fit])
    p = model.predict_proba(X.astype(np.float64))[:, 1]
    print("AUC held out %.4f, fitted %.4f" % (roc_auc_score(y[held], p[held]), roc_auc_score(y[fit], p[fit])))
    onx = convert_lightgbm(model, initial_types=[("input", MlFloat([None, len(columns)]))], target_opset=15, zipmap=False,
                           name="credit_default")  # the default name is random, so the file would not be reproducible
    onx.graph.doc_string = "credit-default, trained on generated applications"
    missing = Flow(values=[""], **{"as": "nan"})
    specs = []
    for c in columns:
        if c in NUMBERS:
            specs.append(Flow(name=c, kind="number", missing=missing))
        elif c in CATEGORIES:
            specs.append({"name": c, "kind": "category", "missing": missing, "codes": Flow((key(v), n) for v, n in codes[c].items()), "unseen": "value", "unseen_value": -1})
        else:
            specs.append(Flow(name=c, kind="boolean", missing=missing, true_values=TRUE, false_values=FALSE))
    manifest = {
        "id": "credit-default", "version": 1, "task": "binary",
        "description": "LightGBM on generated applications: the model of the demo and the tests, not for lending.",
        "outcome": "ok", "positive_class": 1, "classes": [0, 1],
        "onnx": {"file": "model.onnx", "sha256": "", "probabilities": "probabilities", "label": "label"},
        "columns": specs,
        "inputs": [{"name": "input", "type": "float32", "columns": columns}],
        "output": Flow(kind="probability"),
        "scorecard": Flow(base_points=600, base_odds=20, points_to_double_odds=40),
        "decisions": [Flow(name="approve", min_probability=.85), Flow(name="review", min_probability=.6), Flow(name="decline", min_probability=0)],
        "explain": Flow(background="background.csv"),
        "reasons": {c: Flow(code=REASONS[c][0], text=REASONS[c][1]) if c in REASONS else "none" for c in columns},
        "reasons_max": 4,
        "self_test": Flow(input="selftest.csv", expected="selftest-expected.csv", tolerance=1e-6),
        "baseline": baseline(rows[fit], columns, p[fit]),
    }
    sample = slice(-SELF_TEST, None)
    got = run(onx, {"input": X[sample]})
    print("onnxruntime against LightGBM, max difference", np.abs(got - p[sample]).max())
    write_package(folder, manifest, onx, rows[sample][columns], p[sample], rows[columns].iloc[:-HELD_OUT:500])


def columns_frame(rows, columns):
    out = {}
    for c in columns:
        if c in NUMBERS:
            out[c] = np.array([np.nan if x == "" else float(x) for x in rows[c]], dtype=np.float32).astype(np.float64)
        elif c in CATEGORIES:
            out[c] = rows[c].values.astype(object)
        else:
            out[c] = np.array([float(x in TRUE) for x in rows[c]])
    return pd.DataFrame(out)


def train_columns(rows, y, columns, folder):
    X = columns_frame(rows, columns)
    flags = [c for c in columns if c not in NUMBERS + CATEGORIES]
    prep = ColumnTransformer([("num", Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())]), NUMBERS),
                              ("cat", OneHotEncoder(handle_unknown="ignore"), CATEGORIES), ("flag", "passthrough", flags)])
    pipe = Pipeline([("prep", prep), ("clf", LogisticRegression(max_iter=3000, C=.5))])
    pipe.fit(X[:-HELD_OUT], y[:-HELD_OUT])
    p = pipe.predict_proba(X)[:, 1]
    print("columns package: AUC held out %.4f" % roc_auc_score(y[-HELD_OUT:], p[-HELD_OUT:]))
    types = [(c, StringTensorType([None, 1]) if c in CATEGORIES else FloatTensorType([None, 1])) for c in columns]
    onx = convert_sklearn(pipe, "credit_columns", types, options={id(pipe): {"zipmap": False}}, target_opset=15)
    specs = []
    for c in columns:
        if c in NUMBERS:
            specs.append(Flow(name=c, kind="number", missing=Flow(values=[""], **{"as": "nan"})))
        elif c in CATEGORIES:
            specs.append(Flow(name=c, kind="category", missing=Flow(values=[""], **{"as": "category", "value": ""})))
        else:
            specs.append(Flow(name=c, kind="boolean", missing=Flow(values=[""], **{"as": "value", "value": 0})))
    manifest = {
        "id": "credit-columns", "version": 1, "task": "binary", "outcome": "ok", "positive_class": 1, "classes": [0, 1],
        "onnx": {"file": "model.onnx", "sha256": "", "probabilities": "probabilities", "label": "label"},
        "columns": specs,
        "inputs": [Flow(name=c, type="string" if c in CATEGORIES else "float32", column=c) for c in columns],
        "output": Flow(kind="probability"),
        "explain": Flow(background="background.csv"),
        "self_test": Flow(input="selftest.csv", expected="selftest-expected.csv", tolerance=1e-6),
    }
    sample = slice(-SELF_TEST, None)
    feeds = {c: X[c].values[sample].astype(object if c in CATEGORIES else np.float32).reshape(-1, 1) for c in columns}
    got = run(onx, feeds)
    print("onnxruntime against scikit-learn, max difference", np.abs(got - p[sample]).max())
    write_package(folder, manifest, onx, rows[sample][columns], p[sample], rows[columns].iloc[:-HELD_OUT:500])


def run(model, feeds):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options).run(["probabilities"], feeds)[0][:, 1]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--training-data", required=True)
    a.add_argument("--package", required=True)
    a.add_argument("--columns-package")
    args = a.parse_args()
    rows = pd.read_csv(args.training_data, dtype=str, keep_default_na=False, quoting=csv.QUOTE_MINIMAL)
    columns = [c for c in rows.columns if c != "ok"]
    y = (rows["ok"] == "true").astype(int).values
    train_default(rows, y, columns, args.package)
    write_yaml(os.path.join(os.path.dirname(args.package), "aliases.yaml"), {"champion": 1})
    if args.columns_package:
        train_columns(rows, y, columns, args.columns_package)


if __name__ == "__main__":
    main()
