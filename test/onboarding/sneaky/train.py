"""Models of lenders that the zoo has not, each with the table it was trained on, as it is registered right, and as people
register it wrong without noticing. No real data.

    python train.py FOLDER [MODEL ...]

writes FOLDER/<model>/model.onnx and train.csv, and FOLDER/cases.json: {"good": [case], "sneaky": [case]}. A case has `model`,
`name`, the `table`, `options` of `model add`, its `encoding` and, of a wrong one, `truth`: a regular expression for the words in
which a report would name what is wrong.
"""
import copy
import json
import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def holes(rng, values, share):
    out = pd.Series(values, dtype=object)
    out[rng.random(len(out)) < share] = np.nan
    return out


def consumer(n=4000, seed=11):
    """Instalment loans; `repaid` is 1 for a good end. Missing incomes are those of people who do worse."""
    rng = np.random.default_rng(seed)
    age = rng.integers(19, 75, n)
    months = np.minimum(rng.gamma(1.6, 40, n).round(), (age - 18) * 12)
    income = np.exp(rng.normal(10.2, .5, n)).round(0)
    dti = rng.beta(2, 5, n).round(3)
    utilization = rng.beta(1.2, 2, n).round(3)
    inquiries = rng.poisson(1.3, n)
    purpose = rng.choice(["car", "debt", "home", "medical", "travel", "wedding"], n, p=[.25, .3, .2, .1, .1, .05])
    housing = rng.choice(["rent", "own", "parents"], n, p=[.5, .35, .15])
    region = rng.choice(["%02d" % i for i in range(1, 13)], n)
    phone, homeowner, arrears = rng.random(n) < .7, rng.random(n) < .4, rng.random(n) < .15
    effect = {"car": .3, "debt": -.5, "home": .5, "medical": -.7, "travel": 0, "wedding": -.2}
    lack = rng.random(n) < .12
    logit = (.9 + .02 * (age - 40) + .006 * (months - 60) + .7 * (np.log(income) - 10.2) - 2.2 * (dti - .28) - 1.6 * (utilization - .37)
             - .35 * (inquiries - 1.3) + np.vectorize(effect.get)(purpose) + np.vectorize({"rent": -.2, "own": .45, "parents": -.4}.get)(housing)
             + .12 * (np.array([int(r) for r in region]) % 5 - 2) + .25 * phone + .35 * homeowner - 1.5 * arrears - .8 * lack)
    frame = pd.DataFrame({"age": age, "months_employed": months.astype(int), "income": income, "dti": dti, "utilization": utilization,
                          "inquiries": inquiries, "purpose": purpose, "housing": housing, "region": region, "has_phone": phone,
                          "homeowner": homeowner, "prior_arrears": arrears})
    frame["income"] = frame["income"].astype(object)
    frame.loc[lack, "income"] = np.nan
    frame["prior_arrears"] = holes(rng, frame["prior_arrears"], .08)
    frame["housing"] = holes(rng, frame["housing"], .05)
    frame["repaid"] = (rng.random(n) < sigmoid(logit)).astype(int)
    return frame


def firms(n=3500, seed=23):
    """Small firms; `default` is 1 for a loss, `state` says the same in words, `tier` is a price class of three."""
    rng = np.random.default_rng(seed)
    turnover = np.exp(rng.normal(12.5, 1.1, n)).round(0)
    employees = np.maximum(1, (turnover / 90000 * rng.lognormal(0, .5, n)).round())
    years = rng.gamma(2, 5, n).round(1)
    margin = rng.normal(.08, .09, n).round(3)
    leverage = rng.gamma(2, .9, n).round(2)
    sector = rng.choice(["build", "trade", "food", "it", "transport", "care", "farm", "craft"], n)
    form = rng.choice(["LTD", "PLC", "SOLE", "COOP"], n, p=[.5, .1, .3, .1])
    rating = rng.choice(list("ABCDE"), n, p=[.15, .3, .3, .17, .08])
    vat, guarantee, audited = rng.random(n) < .2, rng.random(n) < .5, rng.random(n) < .3
    sector_effect = {"build": .5, "trade": .1, "food": .6, "it": -.4, "transport": .3, "care": -.6, "farm": -.2, "craft": 0}
    logit = (-1.7 - .25 * (np.log(turnover) - 12.5) - .05 * (years - 10) - 5 * (margin - .08) + .45 * (leverage - 1.8)
             + np.vectorize(sector_effect.get)(sector) + np.vectorize({"LTD": 0, "PLC": -.5, "SOLE": .4, "COOP": -.1}.get)(form)
             + .5 * (np.vectorize("ABCDE".index)(rating) - 1.7) + 1.1 * vat - .5 * guarantee - .3 * audited)
    default = rng.random(n) < sigmoid(logit)
    tier = np.digitize(logit + rng.logistic(0, .8, n), [-2.4, -.9])
    loss = np.clip(sigmoid(logit + rng.normal(0, .7, n)) * .9, 0, 1).round(4)
    frame = pd.DataFrame({"turnover": turnover, "employees": employees.astype(int), "years": years, "margin": margin, "leverage": leverage,
                          "sector": sector, "legal_form": form, "rating": rating, "vat_late": vat, "guarantee": guarantee, "audited": audited})
    frame["margin"] = holes(rng, frame["margin"], .1)
    frame["years"] = holes(rng, frame["years"], .06)
    frame["vat_late"] = holes(rng, frame["vat_late"], .07)
    frame["default"] = default.astype(int)
    frame["state"] = np.where(default, "default", "paid")
    frame["tier"] = np.array(["cheap", "middle", "dear"])[tier]
    frame["loss_share"] = loss
    frame["branch"] = rng.choice(["%03d" % i for i in range(1, 9)], n)
    return frame


OUTCOMES = {"consumer": ["repaid"], "firms": ["default", "state", "tier", "loss_share"]}
UNUSED = {"consumer": [], "firms": ["branch"]}


class Registration:
    """How a frame becomes a matrix, and the same as `--encoding`."""

    def __init__(self, frame, order, codes, missing, booleans=None):
        self.order, self.codes, self.missing, self.booleans = list(order), codes, missing, booleans or {}
        self.frame = frame

    def matrix(self, frame):
        out = np.empty((len(frame), len(self.order)), dtype=np.float32)
        for j, name in enumerate(self.order):
            values = frame[name]
            if name in self.codes:
                numbers = values.map(self.codes[name]).astype(float)
            elif values.dropna().map(lambda v: isinstance(v, (bool, np.bool_))).all():
                no, yes = self.booleans.get(name, (0, 1))
                numbers = values.map({True: yes, False: no}).astype(float)
            else:
                numbers = values.astype(float)
            filling = self.missing.get(name, self.missing.get("*", "nan"))
            out[:, j] = numbers.to_numpy() if filling == "nan" else numbers.fillna(filling).to_numpy()
        return out

    def encoding(self):
        return {"order": self.order, "codes": copy.deepcopy(self.codes), "missing": dict(self.missing), "booleans": dict(self.booleans)}


def by_appearance(frame, name):
    return {level: i for i, level in enumerate(frame[name].dropna().unique())}


def by_frequency(frame, name):
    return {level: i for i, level in enumerate(frame[name].value_counts().index)}


def alphabetical(frame, name):
    return {level: i for i, level in enumerate(sorted(frame[name].dropna().unique()))}


def rotated(codes, by=1):
    values = list(codes.values())
    return dict(zip(codes, values[by:] + values[:by]))


class Cases:
    def __init__(self, folder, only):
        self.folder, self.only = folder, only
        self.good, self.sneaky = [], []

    def wants(self, model):
        return not self.only or model in self.only

    def model(self, name, onnx, frame, outcome, data, options=None, encoding=None):
        at = self.folder / name
        at.mkdir(parents=True, exist_ok=True)
        (at / "model.onnx").write_bytes(onnx.SerializeToString())
        frame.to_csv(at / "train.csv", index=False)
        self.now = {"model": name, "table": "train.csv", "encoding": encoding,
                    "options": {"outcome": outcome, "ignore": [o for o in [*OUTCOMES[data], *UNUSED[data]] if o != outcome], **(options or {})}}
        self.good.append({**copy.deepcopy(self.now), "name": "as trained"})
        self.frame = frame

    def wrong(self, name, truth, change=None, options=None, table=None):
        case = copy.deepcopy(self.now)
        case["name"], case["truth"] = name, truth
        if change:
            change(case["encoding"])
        for key, value in (options or {}).items():
            if value is None:
                case["options"].pop(key, None)
            else:
                case["options"][key] = value
        if table is not None:
            case["table"] = f"table-{len(self.sneaky)}.csv"
            table.to_csv(self.folder / case["model"] / case["table"], index=False)
        self.sneaky.append(case)


def exchange(a, b):
    def change(encoding):
        order = encoding["order"]
        i, j = order.index(a), order.index(b)
        order[i], order[j] = b, a
    return change


def either(a, b):
    """An exchange is named by its columns, in any order, or as the order of the table."""
    return f"{a} and {b}|{b} and {a}|order of the table"


def order(make):
    return lambda encoding: encoding.update(order=make(encoding["order"]))


def codes(column, make):
    return lambda encoding: encoding["codes"].update({column: make(encoding["codes"][column])})


def all_codes(make):
    return lambda encoding: encoding.update(codes={c: make(m) for c, m in encoding["codes"].items()})


def missing(column, value):
    return lambda encoding: encoding["missing"].update({column: value})


def unsaid(column):
    return lambda encoding: encoding["missing"].pop(column)


def two_levels(a, b):
    return lambda m: {k: m[b] if k == a else m[a] if k == b else v for k, v in m.items()}


def in_order_of_names(m):
    return {level: i for i, level in enumerate(sorted(m))}


def flipped(column):
    return lambda encoding: encoding["booleans"].update({column: [1, 0]})


def patch_booleans():
    """skl2onnx 1.20 hands NumPy booleans of HistGradientBoosting to onnx, which refuses them; users patch it like this."""
    from skl2onnx.common import _container

    make = _container.make_node

    def plain(v):
        if isinstance(v, (list, tuple)):
            return [plain(x) for x in v]
        return int(v) if isinstance(v, (bool, np.bool_)) else v

    _container.make_node = lambda *args, **attributes: make(*args, **{k: plain(v) for k, v in attributes.items()})


def skl(model, width):
    return convert_sklearn(model, initial_types=[("x", FloatTensorType([None, width]))], options={"zipmap": False}, target_opset=17)


def lightgbm_consumer(cases):
    frame = consumer()
    x = [c for c in frame if c != "repaid"]
    r = Registration(frame, x, {"purpose": by_appearance(frame, "purpose"), "housing": by_frequency(frame, "housing"),
                                "region": alphabetical(frame, "region")}, {"*": "nan", "prior_arrears": 0})
    fitted = lgb.LGBMClassifier(n_estimators=90, num_leaves=12, min_child_samples=20, verbose=-1, random_state=0).fit(r.matrix(frame), frame.repaid)
    onnx = convert_lightgbm(fitted, initial_types=[("x", MlFloat([None, len(x)]))], zipmap=False, target_opset=15)
    cases.model("lightgbm-consumer", onnx, frame, "repaid", "consumer", {"positiveClass": "1"}, r.encoding())
    cases.wrong("age and months exchanged", either("age", "months_employed"), exchange("age", "months_employed"))
    cases.wrong("two flags exchanged", either("has_phone", "homeowner"), exchange("has_phone", "homeowner"))
    cases.wrong("codes of purpose in alphabetical order", "purpose", codes("purpose", in_order_of_names))
    cases.wrong("codes of region rotated", "region", codes("region", rotated))
    cases.wrong("all codes alphabetical", "codes of", all_codes(in_order_of_names))
    cases.wrong("missing income as 0", "missing (income|values)", missing("income", 0))
    cases.wrong("codes from 1", "codes of", all_codes(lambda m: {k: v + 1 for k, v in m.items()}))
    cases.wrong("arrears the other way round", "prior_arrears", flipped("prior_arrears"))
    cases.wrong("the probability of the other class", "--positive-class 1", options={"positiveClass": "0"})


def xgboost_consumer(cases):
    frame = consumer(3000, 37)
    x = ["inquiries", "dti", "utilization", "income", "age", "months_employed", "housing", "purpose", "prior_arrears", "homeowner", "has_phone", "region"]
    r = Registration(frame, x, {c: alphabetical(frame, c) for c in ("purpose", "housing", "region")}, {"*": -999})
    fitted = xgb.XGBClassifier(n_estimators=60, max_depth=4, learning_rate=.2, scale_pos_weight=.4, random_state=0).fit(r.matrix(frame), frame.repaid)
    onnx = convert_xgboost(fitted, initial_types=[("x", MlFloat([None, len(x)]))], target_opset=15)
    cases.model("xgboost-consumer", onnx, frame, "repaid", "consumer", {"positiveClass": "1"}, r.encoding())
    cases.wrong("order of the table", "order of", order(lambda o: [c for c in frame if c in o]))
    cases.wrong("order of names", "order of", order(sorted))
    cases.wrong("missing unsaid, training had -999", "missing", lambda e: e.update(missing={}))
    cases.wrong("dti and utilization exchanged", either("dti", "utilization"), exchange("dti", "utilization"))
    cases.wrong("codes of housing rotated", "housing", codes("housing", rotated))
    cases.wrong("codes by frequency", "codes of", lambda e: e.update(codes={c: by_frequency(frame, c) for c in e["codes"]}))
    shuffled = frame.copy()
    shuffled["repaid"] = np.random.default_rng(5).permutation(shuffled["repaid"].to_numpy())
    cases.wrong("the outcome of other rows", "tell nothing", table=shuffled)
    turned = frame.copy()
    turned["repaid"] = 1 - turned["repaid"]
    cases.wrong("an outcome turned round", "repaid|class", table=turned)


def logistic_consumer(cases):
    frame = consumer(4000, 53)
    x = ["age", "months_employed", "income", "dti", "utilization", "inquiries", "has_phone", "homeowner", "prior_arrears"]
    medians = {"income": float(frame["income"].dropna().astype(float).median()), "prior_arrears": 0}
    r = Registration(frame, x, {}, medians)
    fitted = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")).fit(r.matrix(frame), frame.repaid)
    options = {"positiveClass": "1", "ignore": ["purpose", "housing", "region"]}
    cases.model("logistic-consumer", skl(fitted, len(x)), frame, "repaid", "consumer", options, r.encoding())
    cases.wrong("missing income as 0", "missing (income|values)", missing("income", 0))
    cases.wrong("missing income as -999", "missing (income|values)", missing("income", -999))
    cases.wrong("age and inquiries exchanged", either("age", "inquiries"), exchange("age", "inquiries"))
    cases.wrong("last column first", "order of", order(lambda o: o[-1:] + o[:-1]))
    cases.wrong("homeowner and arrears exchanged", either("homeowner", "prior_arrears"), exchange("homeowner", "prior_arrears"))


def histboosting_firms(cases):
    frame = firms()
    x = [c for c in frame if c not in [*OUTCOMES["firms"], "branch"]]
    r = Registration(frame, x, {"sector": by_appearance(frame, "sector"), "legal_form": by_frequency(frame, "legal_form"),
                                "rating": {k: i + 1 for i, k in enumerate("ABCDE")}}, {"*": "nan"})
    fitted = HistGradientBoostingClassifier(max_iter=70, max_leaf_nodes=10, random_state=0).fit(r.matrix(frame), frame.default)
    cases.model("histboosting-firms", skl(fitted, len(x)), frame, "default", "firms", {"positiveClass": "0"}, r.encoding())
    cases.wrong("rating from the worst to the best", "rating", codes("rating", lambda m: dict(zip("EDCBA", range(1, 6)))))
    cases.wrong("sector alphabetical", "sector", codes("sector", in_order_of_names))
    cases.wrong("missing margin as 0", "missing (margin|values)", missing("margin", 0))
    cases.wrong("missing as -1", "missing", lambda e: e.update(missing={"*": -1}))
    cases.wrong("two sectors exchanged", "sector", codes("sector", two_levels("care", "food")))
    cases.wrong("guarantee and audited exchanged", either("guarantee", "audited"), exchange("guarantee", "audited"))
    cases.wrong("years and leverage exchanged", either("years", "leverage"), exchange("years", "leverage"))
    cases.wrong("the outcome in words, the class of losses", "state|class", options={"outcome": "state", "positiveClass": "1", "ignore": ["default", "tier", "loss_share", "branch"]})


def forest_firms(cases):
    frame = firms(3000, 61)
    x = [c for c in frame if c not in [*OUTCOMES["firms"], "branch"]]
    medians = {c: float(frame[c].dropna().astype(float).median()) for c in ("margin", "years")}
    r = Registration(frame, x, {c: alphabetical(frame, c) for c in ("sector", "legal_form", "rating")}, {**medians, "vat_late": -1})
    y = frame.state.map({"paid": 1, "default": 0})
    fitted = RandomForestClassifier(40, max_depth=7, min_samples_leaf=5, random_state=0).fit(r.matrix(frame), y)
    cases.model("forest-firms", skl(fitted, len(x)), frame, "state", "firms", {"positiveClass": "1"}, r.encoding())
    cases.wrong("missing vat_late unsaid, training had -1", "missing vat_late", unsaid("vat_late"))
    cases.wrong("leverage and margin exchanged", either("leverage", "margin"), exchange("leverage", "margin"))
    cases.wrong("legal form by frequency", "legal_form", codes("legal_form", lambda m: by_frequency(frame, "legal_form")))
    cases.wrong("another outcome of three", "tier", options={"outcome": "tier", "ignore": ["default", "state", "loss_share", "branch"]})


def multiclass_firms(cases):
    frame = firms(4000, 71)
    x = [c for c in frame if c not in [*OUTCOMES["firms"], "branch"]]
    r = Registration(frame, x, {c: alphabetical(frame, c) for c in ("sector", "legal_form", "rating")}, {"*": -1})
    fitted = GradientBoostingClassifier(n_estimators=40, max_depth=3, random_state=0).fit(r.matrix(frame), frame.tier)
    cases.model("multiclass-firms", skl(fitted, len(x)), frame, "tier", "firms", None, r.encoding())
    cases.wrong("an outcome of two values", "default", options={"outcome": "default", "ignore": ["tier", "state", "loss_share", "branch"]})
    renamed = frame.copy()
    renamed["tier"] = renamed["tier"].map({"cheap": "dear", "middle": "cheap", "dear": "middle"})
    cases.wrong("classes renamed in the table", "classes|tier", table=renamed)
    cases.wrong("rating rotated", "rating", codes("rating", rotated))
    cases.wrong("turnover and employees exchanged", either("turnover", "employees"), exchange("turnover", "employees"))


def regression_firms(cases):
    frame = firms(3000, 83)
    x = [c for c in frame if c not in [*OUTCOMES["firms"], "branch"]]
    r = Registration(frame, x, {c: by_frequency(frame, c) for c in ("sector", "legal_form", "rating")}, {"*": "nan", "vat_late": 0})
    fitted = lgb.LGBMRegressor(n_estimators=80, num_leaves=10, verbose=-1, random_state=0).fit(r.matrix(frame), frame.loss_share)
    onnx = convert_lightgbm(fitted, initial_types=[("x", MlFloat([None, len(x)]))], target_opset=15)
    cases.model("regression-firms", onnx, frame, "loss_share", "firms", None, r.encoding())
    cases.wrong("codes of sector alphabetical", "sector", codes("sector", in_order_of_names))
    cases.wrong("vat_late and guarantee exchanged", either("vat_late", "guarantee"), exchange("vat_late", "guarantee"))
    cases.wrong("missing margin as the mean", "missing margin", missing("margin", float(frame.margin.dropna().astype(float).mean())))


def texts_firms(cases):
    frame = firms(3000, 97)
    numbers, texts = ["turnover", "employees", "years", "margin", "leverage"], ["sector", "legal_form", "rating", "branch"]
    inner = ColumnTransformer([("n", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
                               ("t", OneHotEncoder(handle_unknown="ignore"), texts)])
    y = frame.default
    data = frame[numbers].astype(np.float32).join(frame[texts])
    fitted = make_pipeline(inner, LogisticRegression(max_iter=500)).fit(data, y)
    types = [(c, FloatTensorType([None, 1])) for c in numbers] + [(c, StringTensorType([None, 1])) for c in texts]
    onnx = convert_sklearn(fitted, initial_types=types, options={"zipmap": False}, target_opset=17)
    ignore = ["vat_late", "guarantee", "audited"] + [o for o in OUTCOMES["firms"] if o != "default"]
    cases.model("texts-firms", onnx, frame, "default", "firms", {"positiveClass": "0", "ignore": ignore})
    numbered = frame.copy()
    numbered["branch"] = numbered["branch"].astype(int)
    cases.wrong("leading zeros of branch lost in the table", "leading zeros", table=numbered)
    lower = frame.copy()
    lower["legal_form"] = lower["legal_form"].str.lower()
    cases.wrong("categories in small letters in the table", "small letters", table=lower)
    inverted = frame.copy()
    inverted["default"] = 1 - inverted["default"]
    cases.wrong("the outcome turned round in the table", "default|class", table=inverted)


def mlp_consumer(cases):
    frame = consumer(4000, 101)
    x = ["age", "months_employed", "income", "dti", "utilization", "inquiries", "purpose", "housing", "prior_arrears"]
    r = Registration(frame, x, {"purpose": alphabetical(frame, "purpose"), "housing": alphabetical(frame, "housing")}, {"*": 0})
    fitted = make_pipeline(StandardScaler(), MLPClassifier((24,), max_iter=150, random_state=0)).fit(r.matrix(frame), frame.repaid)
    options = {"positiveClass": "1", "ignore": ["has_phone", "homeowner", "region"]}
    cases.model("mlp-consumer", skl(fitted, len(x)), frame, "repaid", "consumer", options, r.encoding())
    cases.wrong("purpose and housing exchanged", either("purpose", "housing"), exchange("purpose", "housing"))
    cases.wrong("missing unsaid, training had 0", "missing", lambda e: e.update(missing={"*": 1}))
    cases.wrong("purpose by first appearance", "purpose", codes("purpose", lambda m: by_appearance(frame, "purpose")))


def extratrees_consumer(cases):
    frame = consumer(5000, 113)
    x = [c for c in frame if c != "repaid"]
    r = Registration(frame, x, {c: {k: v + 1 for k, v in alphabetical(frame, c).items()} for c in ("purpose", "housing", "region")}, {"*": 0})
    fitted = ExtraTreesClassifier(40, max_depth=8, min_samples_leaf=4, random_state=0).fit(r.matrix(frame), frame.repaid)
    cases.model("extratrees-consumer", skl(fitted, len(x)), frame, "repaid", "consumer", {"positiveClass": "1"}, r.encoding())
    cases.wrong("codes from 0", "codes of", all_codes(lambda m: {k: v - 1 for k, v in m.items()}))
    cases.wrong("arrears and phone exchanged", either("has_phone", "prior_arrears"), exchange("has_phone", "prior_arrears"))
    cases.wrong("income as its mean where it lacks", "missing income", missing("income", float(frame.income.dropna().astype(float).mean())))


def weak(name, model, data, seed, outcome, filling, numbering):
    """Models that have not learnt all there is, on codes that mean nothing to them: other codes may well fit as chance has it."""
    def make(cases):
        frame = (consumer if data == "consumer" else firms)(3000, seed)
        x = [c for c in frame if c not in [*OUTCOMES[data], *UNUSED[data]]]
        texts = [c for c in x if frame[c].dropna().map(lambda v: isinstance(v, str)).all()]
        r = Registration(frame, x, {c: numbering(frame, c) for c in texts}, {"*": filling})
        fitted = model().fit(r.matrix(frame), frame[outcome])
        cases.model(f"weak-{name}-{seed}", skl(fitted, len(x)), frame, outcome, data, {"positiveClass": "1"}, r.encoding())
    make.__name__ = f"weak_{name.replace('-', '_')}_{seed}"
    return make


WEAK = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "stumps": lambda: GradientBoostingClassifier(n_estimators=25, max_depth=1, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(30, max_depth=3, random_state=0),
    "network": lambda: make_pipeline(StandardScaler(), MLPClassifier((6,), max_iter=60, random_state=0)),
    "overfit": lambda: RandomForestClassifier(12, random_state=0),
}
WEAK_MODELS = [
    weak(name, model, data, seed, outcome, filling, numbering)
    for name, model in WEAK.items()
    for data, seed, outcome, filling, numbering in [
        ("consumer", 201, "repaid", -1, alphabetical), ("consumer", 202, "repaid", 0, by_frequency),
        ("firms", 203, "default", -999, alphabetical), ("firms", 204, "default", 0, by_appearance)]
]

MODELS = [lightgbm_consumer, xgboost_consumer, logistic_consumer, histboosting_firms, forest_firms, multiclass_firms, regression_firms,
          texts_firms, mlp_consumer, extratrees_consumer, *WEAK_MODELS]


def main():
    patch_booleans()
    folder = Path(sys.argv[1])
    cases = Cases(folder, set(sys.argv[2:]))
    for make in MODELS:
        if cases.wants(make.__name__.replace("_", "-")):
            make(cases)
    (folder / "cases.json").write_text(json.dumps({"good": cases.good, "sneaky": cases.sneaky}, indent=1))


main()
