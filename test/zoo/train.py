"""Makes the zoo: data, models, the libraries' own predictions and reference effects.

    python train.py OUT [--only NAME ...] [--no-effects]

Writes OUT/data and OUT/models and prints a table of how far ONNX Runtime is from each library. The same package
versions (requirements.txt) give the same files.
"""
import argparse
import csv
import json
import os
import sys
import warnings
from importlib.metadata import version

os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import onnxruntime as ort

import applications
from model_inputs import Matrix
from models import GROUPS, Model, repair_hist_gradient_boosting_export

TRAIN_SEED, CLEAN_SEED, DIRTY_SEED = 70311, 70312, 70313
ROWS, SAMPLE, BACKGROUND = 3000, 200, 100
MAX_MODEL_BYTES = 150_000


def write_data(folder):
    os.makedirs(folder, exist_ok=True)
    train = applications.applications(ROWS, TRAIN_SEED)
    clean = applications.applications(SAMPLE, CLEAN_SEED)
    tables = {
        "train": train,
        "clean": clean,
        "dirty": applications.soiled(applications.applications(SAMPLE, DIRTY_SEED), DIRTY_SEED + 1),
        "background": train.iloc[np.sort(np.random.default_rng(5).choice(ROWS, BACKGROUND, replace=False))],
    }
    for name, table in tables.items():
        applications.write(table, os.path.join(folder, name + ".csv"))
    tables = {name: applications.read(os.path.join(folder, name + ".csv")) for name in tables}
    for c in applications.CATEGORIES:
        assert set(tables["clean"][c]) <= set(train[c]), f"{c}: a category of clean.csv is not in train.csv"
    return tables


def serialized(model):
    """The bytes of the model. Converters list operator sets in the order of a hash; sorted, the bytes are stable."""
    sets = sorted(model.opset_import, key=lambda o: o.domain, reverse=True)
    del model.opset_import[:]
    model.opset_import.extend(sets)
    return model.SerializeToString()


def session(data):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def onnx_predictions(model, data, rows):
    """What ONNX Runtime gives, in the shape of `model.predict`."""
    s = session(data)
    feeds = model.inputs.feeds(rows)
    names = {i.name for i in s.get_inputs()}
    assert names == set(feeds), (names, set(feeds))
    batches = [feeds]
    if model.fixed_batch:
        batches = [{k: v[i:i + 1] for k, v in feeds.items()} for i in range(len(rows))]
    out = []
    for b in batches:
        result = dict(zip([o.name for o in s.get_outputs()], s.run(None, b)))
        if model.task in ("regression", "score"):
            tensors = [v for k, v in result.items() if k not in ("label",)]
            out.append(np.asarray(tensors[-1], dtype=np.float64).reshape(-1))
            continue
        result = {k: v for k, v in result.items() if "label" not in k or k.startswith("i")}
        if len(result) == len(model.classes):  # ZipMap columns
            out.append(np.column_stack([v for v in result.values()]).astype(np.float64))
            continue
        (value,) = result.values()
        if isinstance(value, list):  # ZipMap
            value = [[r[c] for c in model.classes] for r in value]
        out.append(np.asarray(value, dtype=np.float64))
    return np.concatenate(out)


def expected(model, rows):
    return np.asarray(model.predict(model.inputs.assemble(model.inputs.arrays(rows))), dtype=np.float64)


def write_expected(path, model, values, refused):
    """One line a row; a row that the encoding refuses has the word refused in each place."""
    given = values
    values = np.full((len(refused), *given.shape[1:]), np.nan)
    values[~refused] = given
    text = lambda v: "refused" if np.isnan(v) else repr(float(v))
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        if model.task == "binary":
            w.writerow(["probability"])
            w.writerows([text(v)] for v in values[:, model.classes.index(model.positive)])
        elif model.task == "multiclass":
            w.writerow([f"probability.{c}" for c in model.classes] + ["prediction"])
            w.writerows([text(x) for x in v] + ["refused" if np.isnan(v[0]) else model.classes[int(np.argmax(v))]] for v in values)
        else:
            w.writerow(["value"])
            w.writerows([text(v)] for v in values)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


def distance(model, a, b):
    if model.task == "binary":
        k = model.classes.index(model.positive)
        a, b = a[:, k], b[:, k]
    return float(np.abs(a - b).max())


def description(model, measured, effects, refuses):
    converter = {"scikit-learn": "skl2onnx", "lightgbm": "onnxmltools", "xgboost": "onnxmltools", "catboost": None}[model.library]
    if model.name == "lightgbm-pipeline":
        converter = "skl2onnx"
    used = [model.library, converter, "onnx", "onnxruntime"]
    out = {"name": model.name, "family": model.family, "library": model.library,
           "versions": {p: version(p) for p in used if p}, "task": model.task, "outcome": model.outcome}
    if model.classes:
        out["classes"] = model.classes
    if model.positive is not None:
        out["positive_class"] = model.positive
    out["register"] = model.inputs.register()
    out["missing"], out["unseen"] = model.missing, model.unseen
    out["tolerance"] = model.tolerance
    if model.deviation:
        out["deviation"] = model.deviation
    out["expect"] = model.expect
    if model.reason:
        out["reason"] = model.reason
    out["dirty_rows"] = "see unseen: a row refused has the word refused in expected-dirty.csv" if refuses else "all are predicted"
    if model.notes:
        out["notes"] = model.notes
    out["measured"] = measured
    if effects:
        out["effects"] = effects
    return out


def build(model: Model, tables, folder, with_effects):
    os.makedirs(folder, exist_ok=True)
    data = serialized(model.onnx)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(data)
    measured = {}
    for name in ("clean", "dirty"):
        refused = model.inputs.refused(tables[name])
        rows = tables[name][~refused].reset_index(drop=True)
        values = expected(model, rows)
        write_expected(os.path.join(folder, f"expected-{name}.csv"), model, values, refused)
        try:
            got = onnx_predictions(model, data, rows)
            measured[name] = float(f"{distance(model, got, values):.1e}")
        except Exception as e:  # of ONNX Runtime's own kinds
            if model.expect != "refused":
                raise
            measured[name] = "does not load"
            print("   ", str(e)[:150])
    if isinstance(model.inputs, Matrix):
        write_json(os.path.join(folder, "codes.json"), model.inputs.codes())
    effects = {}
    if with_effects and model.effects:
        from effects import write_effects
        effects = write_effects(model, tables, folder)
    write_json(os.path.join(folder, "model.json"), description(model, measured, effects, bool(model.inputs.refused(tables["dirty"]).any())))
    bad = [v for v in measured.values() if not isinstance(v, float) or v > model.tolerance]
    fine = bool(bad) == (model.expect != "served")
    print(f"{model.name:34}{len(data):>8}  {measured['clean']!s:>14}{measured['dirty']!s:>14}  "
          f"{model.expect:8}{'' if fine else '  *** NOT AS STATED'}{'  *** TOO LARGE' if len(data) > MAX_MODEL_BYTES else ''}",
          " ".join(f"{k}={v:g}" for k, v in effects.get("measured", {}).items()), flush=True)
    fine &= len(data) <= MAX_MODEL_BYTES
    return fine, [model.name, len(data), measured["clean"], measured["dirty"], model.tolerance, model.expect]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", help="folder that gets data/ and models/")
    p.add_argument("--only", nargs="*", help="write these models only")
    p.add_argument("--no-effects", action="store_true", help="leave out the reference effects")
    a = p.parse_args()
    repair_hist_gradient_boosting_export()
    tables = write_data(os.path.join(a.out, "data"))
    print(f"{'model':34}{'bytes':>8}  {'clean':>14}{'dirty':>14}")
    fine, table = True, []
    for group in GROUPS:
        for model in group(tables["train"]):
            if not a.only or model.name in a.only:
                as_stated, line = build(model, tables, os.path.join(a.out, "models", model.name), not a.no_effects)
                fine &= as_stated
                table.append(line)
    if not a.only:
        with open(os.path.join(a.out, "agreement.csv"), "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([["model", "bytes", "clean", "dirty", "tolerance", "expect"], *table])
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
