"""Trains small models of LightGBM, XGBoost and CatBoost: `train.py SEED FOLDER [NAMES ROUNDS ROWS]`.

For each model, FOLDER/NAME/ receives the file of the library, `features` (float64, row-major, in the numbers the
library compares: codes for categories), `expected` (float64, the library's own predictions) and `about.json`.
Models that must be rejected have `rejected`, a part of the message, and no predictions. NAMES (with commas) selects
models (files whose names end in -1.5 are of XGBoost 1.5.2); ROUNDS and ROWS limit their size and the number of predicted rows, as for the files in test/fixtures/boosters.
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
most_rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 10**9
rng = np.random.default_rng(seed)
ROWS, ASKED = 1500, int(sys.argv[5]) if len(sys.argv) > 5 else 700


def skipped(name):
    return only is not None and name not in only


WORDS = ["x", "Зарплата", "007", "a b", "O'Neil", "long " * 20, "1"]


def table(columns=6, missing=0.15, zeros=0.1, whole=2):
    """Numbers with missing values, zeros and ties."""
    data = {}
    for i in range(columns):
        v = rng.normal(size=ROWS) * 10 ** rng.uniform(-3, 5)
        if i < whole:
            v = np.round(v)
        v[rng.random(ROWS) < zeros] = 0.0
        if missing:
            v[rng.random(ROWS) < missing] = np.nan
        data[f"n {i}"] = v
    return pd.DataFrame(data)


def with_categories(frame, count=2):
    for i in range(count):
        frame[f"c{i}"] = pd.Categorical(rng.choice(WORDS[: 3 + 2 * i], ROWS))
        if i == 0:
            frame.loc[rng.random(ROWS) < 0.1, f"c{i}"] = np.nan
    return frame


def target(frame, kind):
    z = np.zeros(len(frame))
    for name in frame:
        col = frame[name]
        v = col.cat.codes.to_numpy(dtype=float) if isinstance(col.dtype, pd.CategoricalDtype) else col.to_numpy()
        v = np.nan_to_num(v, nan=1.0)
        z += np.tanh(v / (np.std(v) + 1e-9)) * rng.normal()
    z += rng.normal(size=len(z)) * 0.5
    if kind == "binary":
        return (z > np.median(z)).astype(int)
    if kind == "multiclass":
        return np.digitize(z, np.quantile(z, [0.3, 0.7]))
    if kind == "positive":
        return np.exp(z / 3)
    if kind == "share":
        return 1 / (1 + np.exp(-z))
    return z


def asked(frame):
    """Rows to predict: seen rows, other numbers, missing values, and codes that training did not see."""
    some = frame.sample(ASKED, replace=True, random_state=seed)
    out = np.empty((ASKED, frame.shape[1]))
    for i, name in enumerate(frame):
        col = some[name]
        if isinstance(col.dtype, pd.CategoricalDtype):
            v = col.cat.codes.to_numpy(dtype=float).copy()
            v[v < 0] = np.nan
            v[rng.random(ASKED) < 0.1] = 50
            v[rng.random(ASKED) < 0.05] = -1
        else:
            v = col.to_numpy(dtype=float).copy()
            v[rng.random(ASKED) < 0.2] *= rng.normal()
            v[rng.random(ASKED) < 0.1] = np.nan
            v[rng.random(ASKED) < 0.05] = 0.0
            v[rng.random(ASKED) < 0.02] = -0.0
            v[rng.random(ASKED) < 0.02] = 1e-36
        out[:, i] = v
    return out


def save(name, write, features, expected, **about):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    file = write(path)
    if features is not None:
        np.ascontiguousarray(features, dtype="<f8").tofile(os.path.join(path, "features"))
        np.ascontiguousarray(expected, dtype="<f8").tofile(os.path.join(path, "expected"))
        about["columns"] = features.shape[1]
    with open(os.path.join(path, "about.json"), "w") as f:
        json.dump({"file": os.path.basename(file), **about}, f)


# LightGBM


def lightgbm(name, frame, y, rounds=40, rejected=None, **params):
    if skipped(name):
        return
    rounds = min(rounds, most_rounds)
    params = {"verbosity": -1, "seed": seed, "num_leaves": 31, "min_data_in_leaf": 5, **params}
    model = lgb.train(params, lgb.Dataset(frame, y, free_raw_data=False), num_boost_round=rounds)

    def write(path):
        file = os.path.join(path, "model.txt")
        model.save_model(file)
        return file

    if rejected:
        return save(name, write, None, None, rejected=rejected)
    x = asked(frame)
    # From the file, so that categories are the codes in `x`.
    plain = lgb.Booster(model_str=model.model_to_string().split("pandas_categorical:")[0] + "pandas_categorical:null\n")
    save(name, write, x, plain.predict(x), tolerance=1e-12)


numbers, mixed = table(), with_categories(table())
lightgbm("lgb-binary", numbers, target(numbers, "binary"), objective="binary")
lightgbm("lgb-sigmoid", numbers, target(numbers, "binary"), objective="binary", sigmoid=0.7)
lightgbm("lgb-categories", mixed, target(mixed, "binary"), objective="binary", min_data_per_group=5, cat_smooth=1)
lightgbm("lgb-onehot", mixed, target(mixed, "binary"), objective="binary", max_cat_to_onehot=20)
lightgbm("lgb-zero-missing", numbers, target(numbers, "binary"), objective="binary", zero_as_missing=True)
lightgbm("lgb-no-missing", numbers, target(numbers, "binary"), objective="binary", use_missing=False)
full = table(missing=0)
lightgbm("lgb-complete", full, target(full, "binary"), objective="binary")
lightgbm("lgb-dart", mixed, target(mixed, "binary"), objective="binary", boosting="dart", drop_rate=0.4)
lightgbm("lgb-goss", numbers, target(numbers, "value"), objective="regression", data_sample_strategy="goss")
lightgbm("lgb-forest", numbers, target(numbers, "binary"), objective="binary", boosting="rf", bagging_freq=1, bagging_fraction=0.6)
lightgbm("lgb-multiclass", mixed, target(mixed, "multiclass"), objective="multiclass", num_class=3)
lightgbm("lgb-regression", mixed, target(mixed, "value"), objective="regression")
lightgbm("lgb-sqrt", numbers, target(numbers, "value"), objective="regression", reg_sqrt=True)
lightgbm("lgb-l1", numbers, target(numbers, "value"), objective="regression_l1")
lightgbm("lgb-poisson", numbers, target(numbers, "positive"), objective="poisson")
lightgbm("lgb-gamma", numbers, target(numbers, "positive"), objective="gamma")
lightgbm("lgb-tweedie", numbers, target(numbers, "positive"), objective="tweedie")
lightgbm("lgb-entropy", numbers, target(numbers, "share"), objective="cross_entropy")
lightgbm("lgb-entropy-lambda", numbers, target(numbers, "share"), objective="cross_entropy_lambda")
lightgbm("lgb-5000-trees", numbers, target(numbers, "binary"), objective="binary", rounds=5000, num_leaves=4, learning_rate=0.01)
lightgbm("lgb-deep", numbers, target(numbers, "value"), objective="regression", num_leaves=400, max_depth=-1, min_data_in_leaf=1, rounds=20)
wide = table(columns=500)
lightgbm("lgb-500-columns", wide, target(wide, "binary"), objective="binary", rounds=30)
lightgbm("lgb-constant", numbers, np.r_[np.ones(ROWS // 2), np.zeros(ROWS - ROWS // 2)], objective="binary", rounds=2, min_data_in_leaf=1400)
lightgbm("lgb-monotone", full, target(full, "binary"), objective="binary", monotone_constraints=[1, -1, 0, 0, 0, 0])
lightgbm("lgb-linear", full, target(full, "value"), objective="regression", linear_tree=True, rejected="linear_tree")
lightgbm("lgb-ova", numbers, target(numbers, "multiclass"), objective="multiclassova", num_class=3, rejected="multiclassova")
lightgbm(
    "lgb-custom", numbers, target(numbers, "binary"), rejected="objective of your own",
    objective=lambda p, d: (1 / (1 + np.exp(-p)) - d.get_label(), np.full(len(p), 0.25)),
)


def ranking(path):
    ranks = {"objective": "lambdarank", "verbosity": -1, "num_leaves": 4}
    data = lgb.Dataset(numbers, target(numbers, "binary"), group=[100] * 15)
    lgb.train(ranks, data, 3).save_model(os.path.join(path, "model.txt"))
    return os.path.join(path, "model.txt")


if not skipped("lgb-rank"):
    save("lgb-rank", ranking, None, None, rejected="ranks rows")


# XGBoost


def xgboost(name, frame, y, rounds=40, rejected=None, suffix="json", early=None, **params):
    if skipped(name):
        return
    rounds = min(rounds, most_rounds)
    params = {"seed": seed, "max_depth": 5, "verbosity": 0, "nthread": 2, **params}
    cats = any(isinstance(t, pd.CategoricalDtype) for t in frame.dtypes)
    types = ["c" if isinstance(t, pd.CategoricalDtype) else "float" for t in frame.dtypes]
    train = xgb.DMatrix(frame, y, enable_categorical=cats)
    evals = [(xgb.DMatrix(frame, y[rng.permutation(len(y))], enable_categorical=cats), "v")] if early else []
    model = xgb.train(params, train, rounds, evals=evals, early_stopping_rounds=early, verbose_eval=False)

    def write(path):
        file = os.path.join(path, f"model.{suffix}")
        model.save_model(file)
        return file

    if rejected:
        return save(name, write, None, None, rejected=rejected)
    x = asked(frame)
    plain = xgb.Booster(model_file=write(folder))
    ranges = (0, model.best_iteration + 1) if early else (0, 0)
    if cats:
        # The Python interface rejects negative codes.
        x = np.where(x < 0, np.nan, x)
        names = plain.feature_names
        rows = xgb.DMatrix(x.astype(np.float32), feature_types=types, feature_names=names, enable_categorical=True)
        expected = plain.predict(rows, iteration_range=ranges)
    else:
        expected = plain.inplace_predict(x.astype(np.float32), iteration_range=ranges, validate_features=False)
    save(name, write, x, expected, tolerance=0)


xgboost("xgb-binary", numbers, target(numbers, "binary"), objective="binary:logistic")
xgboost("xgb-base-score", numbers, target(numbers, "binary"), objective="binary:logistic", base_score=0.2)
xgboost("xgb-ubj", numbers, target(numbers, "binary"), objective="binary:logistic", suffix="ubj")
xgboost("xgb-categories", mixed, target(mixed, "binary"), objective="binary:logistic", max_cat_to_onehot=1, suffix="ubj")
xgboost("xgb-onehot", mixed, target(mixed, "binary"), objective="binary:logistic", max_cat_to_onehot=50)
xgboost("xgb-dart", numbers, target(numbers, "binary"), objective="binary:logistic", booster="dart", rate_drop=0.4)
xgboost("xgb-multiclass", numbers, target(numbers, "multiclass"), objective="multi:softprob", num_class=3)
xgboost("xgb-regression", mixed, target(mixed, "value"), objective="reg:squarederror")
xgboost("xgb-poisson", numbers, target(numbers, "positive"), objective="count:poisson")
xgboost("xgb-gamma", numbers, target(numbers, "positive"), objective="reg:gamma", base_score=3.5)
xgboost("xgb-tweedie", numbers, target(numbers, "positive"), objective="reg:tweedie")
xgboost("xgb-early", numbers, target(numbers, "binary"), objective="binary:logistic", early=3)
xgboost("xgb-pruned", numbers, target(numbers, "binary"), objective="binary:logistic", gamma=2, tree_method="exact")
xgboost("xgb-forest", numbers, target(numbers, "binary"), objective="binary:logistic", rounds=3, num_parallel_tree=10, subsample=0.6, colsample_bynode=0.6)
xgboost("xgb-deep", numbers, target(numbers, "value"), objective="reg:squarederror", max_depth=40, min_child_weight=0, rounds=20)
xgboost("xgb-lossguide", numbers, target(numbers, "binary"), objective="binary:logistic", grow_policy="lossguide", max_leaves=40, max_depth=0)
xgboost("xgb-3000-trees", numbers, target(numbers, "binary"), objective="binary:logistic", rounds=3000, max_depth=2, eta=0.01)
xgboost("xgb-500-columns", wide, target(wide, "binary"), objective="binary:logistic", rounds=20)
xgboost("xgb-logitraw", numbers, target(numbers, "binary"), objective="binary:logitraw")
xgboost("xgb-linear", full, target(full, "value"), objective="reg:squarederror", booster="gblinear", rejected="gblinear")
xgboost("xgb-hinge", numbers, target(numbers, "binary"), objective="binary:hinge", rejected="binary:hinge")


# CatBoost


def catboost_model(name, frame, y, cls, rejected=None, cats=(), **params):
    if skipped(name):
        return
    params = {"iterations": 40 if rejected else min(40, most_rounds), "random_seed": seed, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 50, "thread_count": 2, **params}
    data = frame.copy()
    for c in cats:
        data[c] = data[c].astype(object).where(data[c].notna(), "nan").astype(str)
    model = cls(**params).fit(data, y, cat_features=list(cats))

    def write(path):
        file = os.path.join(path, "model.json")
        model.save_model(file, format="json")
        return file

    if rejected:
        return save(name, write, None, None, rejected=rejected)
    some = data.sample(ASKED, replace=True, random_state=seed).reset_index(drop=True)
    for c in cats:
        some.loc[rng.random(ASKED) < 0.1, c] = "never seen"
    for c in data:
        if c not in cats:
            some.loc[rng.random(ASKED) < 0.2, c] *= rng.normal()
            if data[c].isna().any():
                some.loc[rng.random(ASKED) < 0.1, c] = np.nan
    classifier = hasattr(model, "predict_proba")
    expected = model.predict_proba(some) if classifier else model.predict(some)
    if classifier and expected.shape[1] == 2:
        expected = expected[:, 1]
    # Texts are passed as they are: the test maps them to codes.
    texts = {c: some[c].tolist() for c in cats}
    x = np.column_stack([np.zeros(ASKED) if c in cats else some[c].to_numpy(dtype=float) for c in some])
    save(name, write, x, expected, tolerance=1e-12, texts=texts, names=list(some))


C, R = catboost.CatBoostClassifier, catboost.CatBoostRegressor
catboost_model("cat-binary", numbers, target(numbers, "binary"), C)
catboost_model("cat-categories", mixed, target(mixed, "binary"), C, cats=["c0", "c1"])
catboost_model("cat-nan-max", numbers, target(numbers, "binary"), C, nan_mode="Max")
catboost_model("cat-complete", full, target(full, "binary"), C)
catboost_model("cat-multiclass", mixed, target(mixed, "multiclass"), C, cats=["c0", "c1"])
catboost_model("cat-regression", mixed, target(mixed, "value"), R, cats=["c0", "c1"])
catboost_model("cat-poisson", numbers, target(numbers, "positive"), R, loss_function="Poisson")
catboost_model("cat-lossguide", numbers, target(numbers, "binary"), C, grow_policy="Lossguide", max_leaves=20)
catboost_model("cat-depthwise", mixed, target(mixed, "multiclass"), C, cats=["c0", "c1"], grow_policy="Depthwise")
catboost_model("cat-depth-10", numbers, target(numbers, "value"), R, depth=10)
catboost_model("cat-words", numbers, np.where(target(numbers, "binary") == 1, "good", "bad"), C)
catboost_model("cat-ctr", mixed, target(mixed, "binary"), C, cats=["c0", "c1"], one_hot_max_size=2, rejected="one_hot_max_size")
catboost_model("cat-ova", numbers, target(numbers, "multiclass"), C, loss_function="MultiClassOneVsAll", rejected="MultiClassOneVsAll")
