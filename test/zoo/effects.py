"""Reference effects of the application columns, and the covers that path-dependent effects need.

Every method is checked here before its file is written: effects and base must add up to the library's own raw value,
the covers must give the library's own path-dependent values when the reference runs on the ONNX trees.
"""
import csv
import json
import os
from itertools import combinations
from math import comb

import lightgbm as lgb
import numpy as np
import pandas as pd
import shap
import xgboost as xgb
from catboost import Pool
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

import trees

CLEAN_ROWS, DIRTY_ROWS, BRUTE_ROWS = 40, 20, [0, 1, 2, 40, 41]


# What the library computes, in the additive space and for the positive class


def split(model):
    """The part of the fitted model that makes features, and the estimator."""
    f = model.fitted
    return (f[:-1], f[-1]) if isinstance(f, Pipeline) else (None, f)


def features(model, X):
    prep, _ = split(model)
    F = X if prep is None else prep.transform(X)
    return np.asarray(F.toarray() if hasattr(F, "toarray") else F, dtype=np.float64)


def players(model):
    """The application column (its place in model.inputs.columns) of each feature."""
    prep, _ = split(model)
    place = {c: i for i, c in enumerate(model.inputs.columns)}
    if prep is None or "prep" not in prep.named_steps:
        return list(range(len(place)))
    out = []
    for name, part, columns in prep.named_steps["prep"].transformers_:
        if name == "num" and "bins" in part.named_steps:
            widths = part.named_steps["bins"].n_bins_
        elif name == "cat":
            widths = [len(c) for c in part.categories_]
        else:
            widths = [1] * len(columns)
        for c, w in zip(columns, widths):
            out += [place[c]] * int(w)
    return out


def oriented(model, values):
    """Raw values [rows] or [rows, classes] as [rows, outputs], turned to the positive class."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if model.task == "binary":
        values = values[:, -1:]
        if model.classes.index(model.positive) == 0:
            values = -values if model.space == "log_odds" else 1 - values
    return values


def raw(model, X):
    """The library's raw value of assembled inputs."""
    _, est = split(model)
    if model.task in ("regression", "score") or model.space == "probability":
        return oriented(model, model.predict(X))
    F = X if split(model)[0] is None else split(model)[0].transform(X)
    if model.library == "scikit-learn":
        return oriented(model, est.decision_function(F))
    if model.library == "lightgbm":
        return oriented(model, est.predict(F, raw_score=True))
    if model.library == "xgboost":
        return oriented(model, est.predict(F, output_margin=True))
    return oriented(model, est.predict(F, prediction_type="RawFormulaVal"))


def library_path(model, F):
    """The library's own path-dependent values of features: base [outputs], effects [rows, outputs, features]."""
    _, est = split(model)
    outputs = len(model.classes) if model.task == "multiclass" else 1
    if model.library == "scikit-learn":
        e = shap.TreeExplainer(est, feature_perturbation="tree_path_dependent")
        v = np.asarray(e.shap_values(F, check_additivity=False), dtype=np.float64)
        base = np.atleast_1d(np.asarray(e.expected_value, dtype=np.float64))
        v = v[:, None, :] if v.ndim == 2 else np.moveaxis(v, 2, 1)
        return base[-v.shape[1]:], v
    if model.library == "lightgbm":
        booster = est if isinstance(est, lgb.Booster) else est.booster_
        v = booster.predict(F, pred_contrib=True)
    elif model.library == "xgboost":
        v = est.get_booster().predict(xgb.DMatrix(F), pred_contribs=True)
    else:
        v = est.get_feature_importance(Pool(F.astype(np.float32)), type="ShapValues")
    v = np.asarray(v, dtype=np.float64).reshape(len(F), outputs, -1)
    return v[0, :, -1], v[:, :, :-1]


def shap_interventional(model, F, B):
    """What shap says of features, or None where it does not know the kind of model."""
    _, est = split(model)
    if "native" in model.name:  # shap takes a set of categories for a threshold here, silently; effects-brute.csv is right
        return None
    try:
        v = np.asarray(shap.TreeExplainer(est, data=B, feature_perturbation="interventional").shap_values(F, check_additivity=False))
    except Exception as e:
        print("    shap:", str(e).split("\n")[0][:120])
        return None
    return v[:, None, :] if v.ndim == 2 else np.moveaxis(v, 2, 1)


# Covers, from the library's own trees onto the nodes of the ONNX trees


def library_trees(model):
    """The trees as nested (cover, true child, false child) or (cover,); sets of categories as (cover, left, right, set)."""
    _, est = split(model)
    if model.library == "lightgbm":
        booster = est if isinstance(est, lgb.Booster) else est.booster_

        def build(n):
            if "leaf_index" not in n and "leaf_value" in n and "split_feature" not in n:
                return (n.get("leaf_count", 0),)
            if "split_feature" not in n:
                return (n["leaf_count"],)
            node = (n["internal_count"], build(n["left_child"]), build(n["right_child"]))
            return node + ([float(v) for v in n["threshold"].split("||")],) if n["decision_type"] == "==" else node

        return [build(t["tree_structure"]) for t in booster.dump_model()["tree_info"]]

    def nested(left, right, cover, i=0):
        if left[i] < 0 or left[i] == right[i]:
            return (float(cover[i]),)
        return (float(cover[i]), nested(left, right, cover, left[i]), nested(left, right, cover, right[i]))

    if model.library == "xgboost":
        dump = json.loads(est.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
        return [nested(t["left_children"], t["right_children"], t["sum_hessian"]) for t in dump]
    if isinstance(est, HistGradientBoostingClassifier):
        all_nodes = [p.nodes for step in est._predictors for p in step]
        return [nested(np.where(n["is_leaf"], -1, n["left"].astype(int)), n["right"], n["count"]) for n in all_nodes]
    if isinstance(est, GradientBoostingClassifier):
        parts = est.estimators_.ravel()
    else:
        parts = getattr(est, "estimators_", [est])
    return [nested(e.tree_.children_left, e.tree_.children_right, e.tree_.weighted_n_node_samples) for e in parts]


def place_cover(ensemble, n, tree, cover, scale=1.0):
    """Writes the covers of a library tree onto the ONNX nodes under `n`, walking both together."""
    cover[n] = tree[0] * scale
    if len(tree) == 1:
        assert not ensemble.inner[n]
        return
    if len(tree) == 3:
        place_cover(ensemble, ensemble.true[n], tree[1], cover, scale)
        place_cover(ensemble, ensemble.false[n], tree[2], cover, scale)
        return
    # A set of categories: a chain of tests for equality, each leading to a copy of the left subtree. The cover of the
    # left subtree is dealt out evenly over its copies, so that the covers under a set of nodes add up to the library's.
    _, left, right, values = tree
    for i in range(len(values)):
        assert ensemble.mode[n] == b"BRANCH_EQ" and ensemble.threshold[n] in values
        cover[n] = (left[0] * (len(values) - i) / len(values) + right[0]) * scale
        place_cover(ensemble, ensemble.true[n], left, cover, scale / len(values))
        n = ensemble.false[n]
    place_cover(ensemble, n, right, cover, scale)


def covers(model, ensemble):
    cover = np.zeros(len(ensemble.mode))
    if model.library == "catboost":
        values, weights = model.fitted.get_leaf_values(), model.fitted.get_leaf_weights()
        at = 0
        for t, size in enumerate(model.fitted.get_tree_leaf_counts()):
            nodes = ensemble.trees[t]
            for k in range(size):  # a full tree: the leaves come last, in the order of the library
                i = nodes[size - 1 + k]
                assert not ensemble.inner[i] and abs(ensemble.weight[i, -1] - values[at + k]) < 1e-6
                cover[i] = weights[at + k]
            for n in range(size - 2, -1, -1):
                cover[nodes[n]] = cover[ensemble.true[nodes[n]]] + cover[ensemble.false[nodes[n]]]
            at += size
        return cover
    for t, tree in enumerate(library_trees(model)):
        place_cover(ensemble, ensemble.roots[t], tree, cover)
    return cover


# References that look at the model from outside


def linear(model, F, B, owner, width):
    _, est = split(model)
    coefficients = np.ravel(est.coef_)
    base = float(np.ravel(est.intercept_)[0] + coefficients @ B.mean(axis=0))
    each = (F - B.mean(axis=0)) * coefficients
    out = np.zeros((len(F), 1, width))
    for f, p in enumerate(owner):
        out[:, 0, p] += each[:, f]
    return np.array([base]), out


def brute(model, arrays, background, rows):
    """All subsets of the columns, each with all background rows: the definition itself."""
    k, m = len(arrays), len(background[0])
    masks = np.arange(1 << k)
    base, out = None, []
    for r in rows:
        mixed = [np.where(np.repeat(masks >> c & 1, m).astype(bool), a[r:r + 1], np.tile(b, len(masks)))
                 .astype(a.dtype) for c, (a, b) in enumerate(zip(arrays, background))]
        v = raw(model, model.inputs.assemble(mixed)).reshape(len(masks), m, -1).mean(axis=1)
        size = np.array([int(s).bit_count() for s in masks])
        effects = np.zeros((v.shape[1], k))
        for c in range(k):
            out_of = masks[(masks >> c & 1) == 0]
            w = 1 / (k * np.array([comb(k - 1, s) for s in size[out_of]]))
            effects[:, c] = w @ (v[out_of | 1 << c] - v[out_of])
        base = v[0]
        out.append(effects)
    return base, np.array(out)


# Files


def write(path, model, base, effects):
    many = model.task == "multiclass"
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["class"] * many + ["base"] + model.inputs.columns)
        for row in effects:
            for o, values in enumerate(row):
                w.writerow(([model.classes[o]] if many else []) + [f"{v + 0:.12g}" for v in (base[o], *values)])


def turned(model, base, effects):
    """From the outputs of the ONNX trees to the positive class."""
    if model.task == "binary":
        base, effects = base[-1:], effects[:, -1:]
        if model.classes.index(model.positive) == 0:
            base, effects = (-base if model.space == "log_odds" else 1 - base), -effects
    return base, effects


def gap(a, b):
    """The largest difference, over 1 or over the largest value of the row where that is larger."""
    scale = np.maximum(1, np.abs(b).reshape(len(b), -1).max(axis=1)).reshape((-1,) + (1,) * (b.ndim - 1))
    return float(np.max(np.abs(a - b) / scale))


def write_effects(model, tables, folder):
    """Writes the effects of a model, and covers.json; returns what model.json says of them."""
    rows = pd.concat([tables["clean"][:CLEAN_ROWS], tables["dirty"][:DIRTY_ROWS]], ignore_index=True)
    arrays, background = model.inputs.arrays(rows), model.inputs.arrays(tables["background"])
    X, Z = model.inputs.assemble(arrays), model.inputs.assemble(background)
    width = len(model.inputs.columns)
    owner = players(model) if model.effects != "brute" else None
    want = raw(model, X)
    measured, files = {}, {}
    out = lambda name: os.path.join(folder, name)

    if model.effects == "tree":
        F, B = features(model, X), features(model, Z)
        ensemble = trees.Ensemble(model.onnx)
        measured["onnx_trees"] = gap(oriented(model, ensemble.value(F.astype(np.float32))), want)
        base, effects = turned(model, *trees.interventional(ensemble, F, B, owner, width))
        other = shap_interventional(model, F, B)
        if other is not None:
            by_feature = turned(model, *trees.interventional(ensemble, F, B, range(F.shape[1]), F.shape[1]))[1]
            measured["shap_interventional"] = gap(by_feature, turned(model, np.zeros(1), other)[1])
    elif model.effects == "linear":
        base, effects = turned(model, *linear(model, features(model, X), features(model, Z), owner, width))
    else:
        base, effects = brute(model, arrays, background, range(len(rows)))
    measured["interventional_sum"] = gap(base + effects.sum(axis=2), want)
    write(out("effects-interventional.csv"), model, base, effects)
    files["interventional"] = {"tree": "leaf by leaf over the ONNX trees", "linear": "closed form",
                               "brute": "all subsets of the columns"}[model.effects]
    if model.brute:
        brute_base, some = brute(model, arrays, background, BRUTE_ROWS)
        measured["brute_against_interventional"] = gap(some, effects[BRUTE_ROWS])
        measured["brute_base"] = float(np.abs(brute_base - base).max())
        write(out("effects-brute.csv"), model, brute_base, some)
        files["brute"] = "all subsets of the columns, asked of the library"

    if model.effects == "tree":
        cover = covers(model, ensemble)
        own_base, own = turned(model, *trees.path_dependent(ensemble, F, cover, range(F.shape[1]), F.shape[1]))
        lib_base, lib = turned(model, *library_path(model, F))
        measured["covers_against_library"] = gap(own, lib)
        measured["covers_base"] = float(np.abs(own_base - lib_base).max())
        if F.shape[1] == width:
            base, effects = lib_base, lib
            files["path"] = "the library's own: " + {"scikit-learn": "shap.TreeExplainer", "lightgbm": "pred_contrib",
                                                     "xgboost": "pred_contribs", "catboost": "ShapValues"}[model.library]
        else:  # one-hot features: no library makes columns the players
            base, effects = turned(model, *trees.path_dependent(ensemble, F, cover, owner, width))
            files["path"] = "leaf by leaf over the ONNX trees with covers.json, columns as players; with features as players it agrees with " + (
                "shap.TreeExplainer" if model.library == "scikit-learn" else "pred_contrib")
        if model.brute:
            by_definition = np.array([[trees.path_dependent_brute(ensemble, F[r].astype(np.float32), cover, owner, width, o)
                                       for o in range(ensemble.weight.shape[1])] for r in BRUTE_ROWS])
            measured["path_against_brute"] = gap(turned(model, ensemble.base, by_definition)[1], effects[BRUTE_ROWS])
        measured["path_sum"] = gap(base + effects.sum(axis=2), want)
        write(out("effects-path.csv"), model, base, effects)
        with open(out("covers.json"), "w", encoding="utf-8") as f:
            table = {str(t): [float(f"{cover[nodes[n]]:.12g}") for n in range(len(nodes))] for t, nodes in ensemble.trees.items()}
            table = {t: [int(v) if v == int(v) else v for v in c] for t, c in table.items()}
            json.dump(table, f, separators=(",", ":"))
            f.write("\n")
    for name, value in measured.items():
        assert value <= model.effects_tolerance, f"{model.name}: {name} is {value}"
    tolerance = {"abs": model.effects_tolerance, "rel": 1e-6}
    return {"space": model.space,
            "base": "the mean raw value of data/background.csv (effects-path.csv: the mean weighed by the covers)"
            if model.effects == "tree" else "the mean raw value of data/background.csv",
            "rows": f"the first {CLEAN_ROWS} of data/clean.csv, then the first {DIRTY_ROWS} of data/dirty.csv"
            + ("; effects-brute.csv: of these, 0, 1, 2, 40 and 41" if model.brute else ""),
            "files": files, "tolerance": tolerance, "measured": {k: float(f"{v:.1e}") for k, v in measured.items()}}
