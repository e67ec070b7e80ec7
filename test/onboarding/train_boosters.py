"""Trains models as their users do, from data frames: `train_boosters.py SEED FOLDER [NAMES ROWS TREES]`.

For each model, FOLDER/NAME/ receives the file of the library, train.csv with the outcome, expected.csv (predictions of
the training rows), holdout.csv with missing values and unseen categories, holdout.json (their predictions; null: the
library rejects the row) about.json,
and codes.json where `model add` needs --encoding.
"""
import json
import os
import sys
import warnings

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

warnings.filterwarnings("ignore")
seed, folder = int(sys.argv[1]), sys.argv[2]
only = set(sys.argv[3].split(",")) if len(sys.argv) > 3 else None
ROWS = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
TREES = int(sys.argv[5]) if len(sys.argv) > 5 else 50
rng = np.random.default_rng(seed)


def frame(rows, unseen=False):
    """Applications: texts are objects, as pandas reads them."""
    def pick(values, p_missing=0.0):
        v = np.array(rng.choice(values, rows), dtype=object)
        v[rng.random(rows) < p_missing] = None
        return v

    jobs = ["clerk", "nurse, night", 'the "boss"'] + (["astronaut"] if unseen else [])
    x = pd.DataFrame({
        "income": np.round(rng.lognormal(8, 1, rows), 2),
        "postcode": pick(["02134", "10115", "99999"] + (["00000"] if unseen else [])),
        "job": pick(jobs, 0.15),
        "town": pick(["Köln", "Пермь", "Łódź", "東京"]),
        "branch": rng.choice([3, 7, 11], rows),
        "age": rng.integers(18, 80, rows),
        "own home": rng.random(rows) < 0.5,
        "debt ratio": rng.normal(size=rows) / 3,
    })
    x.loc[rng.random(rows) < 0.12, "income"] = np.nan
    x.loc[rng.random(rows) < 0.05, "debt ratio"] = 0.0
    return x


def target(x):
    z = np.log(x.income.fillna(2000)) - 8 + (x.postcode == "02134") * 1.5 - (x.job == "clerk") + x["own home"] * 0.7
    z = z + (x.town == "Köln") * 0.8 - (x.branch == 7) * 0.6 + (x.age - 45) / 20 + x["debt ratio"]
    return (z + rng.normal(size=len(x)) * 0.7).to_numpy()


def as_categories(x, like=None, names=("postcode", "job", "town", "branch")):
    x = x.copy()
    for c in names:
        if c in x:
            x[c] = pd.Categorical(x[c], categories=None if like is None else like[c].cat.categories)
    return x


def training(kind, names):
    """Applications with the columns that the model reads, the same as pandas categories, and their outcome."""
    x = frame(ROWS)
    z = target(x)
    y = {"binary": (z > 0).astype(int), "multiclass": np.digitize(z, [-0.5, 0.8]), "regression": z}[kind]
    cats = as_categories(x, names=names)
    x = x[[c for c in x if c in names or c not in ("postcode", "job", "town")]]
    return x, cats[list(x)], y


def save(name, write, x, y, predict, seen, *, encoding=None, task="binary", unseen=True):
    """`predict` gets raw frames; `seen` says which columns reject unseen categories."""
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    file = write(path)
    holdout = frame(300, unseen)[list(x)]
    table = x.copy()
    table["ok"] = y
    table.to_csv(os.path.join(path, "train.csv"), index=False)
    holdout.to_csv(os.path.join(path, "holdout.csv"), index=False)
    p = predict(x)
    columns = [f"probability.{c}" for c in np.unique(y)] if p.ndim == 2 else ["prediction"]
    pd.DataFrame(p, columns=columns).astype(float).to_csv(os.path.join(path, "expected.csv"), index=False)
    q = predict(holdout).tolist()
    rejected = seen(holdout)
    with open(os.path.join(path, "holdout.json"), "w") as f:
        json.dump([None if r else v for r, v in zip(rejected, q)], f)
    if encoding:
        with open(os.path.join(path, "codes.json"), "w") as f:
            json.dump(encoding, f)
    with open(os.path.join(path, "about.json"), "w") as f:
        json.dump({"file": os.path.basename(file), "task": task}, f)


none = lambda h: [False] * len(h)


def wanted(name):
    return only is None or name in only


# LightGBM codes unseen categories as missing. The columns of `ordered` are numbers to the model, and those of `declared`
# are categories even if pandas has them as numbers.


def lightgbm(name, kind, names, ordered=(), declared="auto", **params):
    if not wanted(name):
        return
    x, cats, y = training(kind, names)
    for c in ordered:
        cats[c] = cats[c].cat.set_categories(cats[c].cat.categories[::-1], ordered=True)
    cls = lgb.LGBMRegressor if kind == "regression" else lgb.LGBMClassifier
    model = cls(n_estimators=TREES, verbosity=-1, min_child_samples=5, random_state=seed, **params)
    model.fit(cats, y, categorical_feature=declared)

    def write(path):
        model.booster_.save_model(os.path.join(path, "model.txt"))
        return "model.txt"

    def predict(raw):
        coded = as_categories(raw, cats, names)
        if kind == "regression":
            return model.predict(coded)
        p = model.predict_proba(coded)
        return p[:, 1] if kind == "binary" else p

    save(name, write, x, y, predict, none, task=kind)


ALL = ("postcode", "job", "town", "branch")
lightgbm("lgb-binary", "binary", ALL)
lightgbm("lgb-numbers", "binary", ())
lightgbm("lgb-dart", "binary", ("postcode", "job"), boosting_type="dart")
lightgbm("lgb-multiclass", "multiclass", ALL)
lightgbm("lgb-regression", "regression", ("town",))
lightgbm("lgb-ordered", "binary", ("postcode", "branch"), ordered=("branch",), declared=["postcode", "own home"])


# XGBoost rejects unseen categories, and saves categories with letters outside ASCII incompletely.


def xgboost(name, kind, names, suffix, codes=(), **params):
    if not wanted(name):
        return
    x, cats, y = training(kind, names)
    cls = xgb.XGBRegressor if kind == "regression" else xgb.XGBClassifier
    model = cls(n_estimators=TREES, enable_categorical=True, random_state=seed, **params).fit(cats, y)

    def write(path):
        model.save_model(os.path.join(path, f"model.{suffix}"))
        return f"model.{suffix}"

    def predict(raw):
        coded = as_categories(raw, cats, names)
        if kind == "regression":
            return model.predict(coded).astype(float)
        p = model.predict_proba(coded).astype(float)
        return p[:, 1] if kind == "binary" else p

    def rejected(raw):
        bad = np.zeros(len(raw), dtype=bool)
        for c in names:
            bad |= raw[c].notna().to_numpy() & ~raw[c].isin(cats[c].cat.categories).to_numpy()
        return bad.tolist()

    encoding = {"codes": {c: [v if isinstance(v, str) else int(v) for v in cats[c].cat.categories] for c in codes}} if codes else None
    save(name, write, x, y, predict, rejected, task=kind, encoding=encoding)


xgboost("xgb-binary", "binary", ("postcode", "job", "branch"), "ubj")
xgboost("xgb-letters", "binary", ALL, "json", codes=("town",))
xgboost("xgb-numbers", "binary", (), "json")
xgboost("xgb-multiclass", "multiclass", ("postcode",), "ubj")
xgboost("xgb-regression", "regression", ("job",), "ubj")


# CatBoost gets texts; an unseen one equals no category. It gets the columns of `booleans` unchanged.


def cat(name, kind, names, booleans=()):
    if not wanted(name):
        return
    x = frame(ROWS)
    z = target(x)
    y = {"binary": np.where(z > 0, "good", "bad"), "multiclass": np.array(["a", "b", "c"])[np.digitize(z, [-0.5, 0.8])], "regression": z}[kind]
    x = x[[c for c in x if c in names or c not in ("postcode", "job", "town")]]

    def prepared(raw):
        raw = raw.copy()
        for c in names:
            raw[c] = raw[c].astype(object).where(raw[c].notna(), "nan").astype(str)
        return raw

    cls = catboost.CatBoostRegressor if kind == "regression" else catboost.CatBoostClassifier
    model = cls(iterations=TREES, verbose=0, one_hot_max_size=20, random_seed=seed, allow_writing_files=False)
    model.fit(prepared(x), y, cat_features=[*names, *booleans])

    def write(path):
        model.save_model(os.path.join(path, "model.json"), format="json")
        return "model.json"

    def predict(raw):
        if kind == "regression":
            return model.predict(prepared(raw))
        p = model.predict_proba(prepared(raw))
        return p[:, 1] if kind == "binary" else p

    save(name, write, x, y, predict, none, task=kind)


cat("cat-binary", "binary", ALL)
cat("cat-multiclass", "multiclass", ("postcode", "job"))
cat("cat-regression", "regression", ("town", "branch"))
cat("cat-booleans", "binary", ("job",), booleans=("own home",))
