"""Writes the three small models that the crossings score with: python3 make.py (onnx==1.23.2), then `sluice model seal` without their locks.

trees: binary, with decisions, points and effects; classes: three classes with names that need quoting; value: a regression.
"""
import hashlib
import pathlib
import random

from onnx import TensorProto, helper, save

HERE = pathlib.Path(__file__).parent
THRESHOLDS = {
    "amount": [-5.0, 0.0, 0.5, 99.5, 100.0, 1500.0, 1e6],
    "term": [6.0, 12.0, 24.0, 36.5, 120.0],
    "banned": [0.5],
    "product": [-1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "region": [-0.5, 0.5, 1.5],
}


def trees(columns, targets, count, seed, post):
    """Attributes of an ensemble: complete trees of depth 3 whose leaves each have a weight for one target."""
    rng = random.Random(seed)
    # Every threshold of every column is asked for, so that no value can stand for its neighbour.
    tests = []
    a = {key: [] for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true", "hitrates")}
    leaves = []
    for tree in range(count):
        for node in range(15):
            leaf = node >= 7
            if not tests:
                tests = [(columns.index(c), t) for c in columns for t in THRESHOLDS[c]]
                rng.shuffle(tests)
            feature, threshold = (0, 0.0) if leaf else tests.pop()
            a["treeids"].append(tree)
            a["nodeids"].append(node)
            a["featureids"].append(0 if leaf else feature)
            a["values"].append(threshold)
            a["modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            a["truenodeids"].append(0 if leaf else 2 * node + 1)
            a["falsenodeids"].append(0 if leaf else 2 * node + 2)
            a["missing_value_tracks_true"].append(0 if leaf else rng.randrange(2))
            a["hitrates"].append(1.0)
            if leaf:
                leaves.append((tree, node, tree % targets, round(rng.uniform(-0.6, 0.6), 4)))
    nodes = {f"nodes_{key}": value for key, value in a.items()}
    return nodes, leaves, post


def classifier(columns, labels, targets, count, seed, post):
    nodes, leaves, post = trees(columns, targets, count, seed, post)
    ids = {f"class_{key}": [leaf[i] for leaf in leaves] for i, key in enumerate(("treeids", "nodeids", "ids", "weights"))}
    if targets == 1:
        # As LightGBM exports two classes: the weights of one of them.
        ids["class_ids"] = [0] * len(leaves)
    names = {"classlabels_int64s": labels} if isinstance(labels[0], int) else {"classlabels_strings": labels}
    return helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "probabilities"], domain="ai.onnx.ml", post_transform=post, **nodes, **ids, **names)


def regressor(columns, count, seed):
    nodes, leaves, _ = trees(columns, 1, count, seed, "NONE")
    ids = {f"target_{key}": [leaf[i] for leaf in leaves] for i, key in enumerate(("treeids", "nodeids", "ids", "weights"))}
    return helper.make_node("TreeEnsembleRegressor", ["x"], ["value"], domain="ai.onnx.ml", n_targets=1, post_transform="NONE", **nodes, **ids)


def write(name, node, columns, outputs, manifest):
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, len(columns)])], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    folder = HERE / name / "1"
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    (folder / "model.yaml").write_text(f"# Written by test/oracle/packages/make.py.\nid: {name}\nversion: 1\n" + manifest.replace("SHA256", digest))


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


AMOUNT = '  - { name: amount, kind: number, missing: { values: ["", "NA", "-999"], as: nan } }\n'
TERM = "  - { name: term, kind: number, range: [0, 600], missing: { as: value, value: 24 } }\n"
BANNED = "  - { name: banned, kind: boolean, missing: { as: value, value: 0 } }\n"
PRODUCT = """  - name: product
    kind: category
    codes: { "0230": 0, "230": 1, "0077": 2, "A7": 3, "Zürich": 4, 'say "hi"': 5, "a,b": 6 }
    missing: { as: value, value: -1 }
"""
REGION = '  - name: region\n    kind: category\n    codes: { "1": 0, "2": 1, "30": 2 }\n'

FIVE = ["amount", "term", "banned", "product", "region"]
write(
    "trees",
    classifier(FIVE, [0, 1], 1, 12, 5, "LOGISTIC"),
    FIVE,
    [tensor("label", TensorProto.INT64, [None]), tensor("probabilities", TensorProto.FLOAT, [None, 2])],
    "task: binary\noutcome: ok\npositive_class: 1\nclasses: [0, 1]\n"
    "onnx: { file: model.onnx, sha256: SHA256, probabilities: probabilities, label: label }\ncolumns:\n"
    + AMOUNT + TERM + BANNED + PRODUCT + "    unseen: value\n    unseen_value: -2\n" + REGION + "    missing: { as: error }\n"
    + "inputs:\n  - { name: x, type: float32, columns: [amount, term, banned, product, region] }\noutput: { kind: probability }\n"
    "scorecard: { base_points: 600, base_odds: 1, points_to_double_odds: 50 }\n"
    "decisions:\n  - { name: 'approve, now', min_probability: 0.6 }\n  - { name: review, min_probability: 0.4 }\n"
    "explain: { background: background.csv }\n"
    "reasons:\n  amount: { code: A1, text: the amount }\n  product: { code: P1, text: the product }\n  banned: { code: B1, text: banned }\nreasons_max: 2\n",
)
(HERE / "trees/1/background.csv").write_text(
    "amount,term,banned,product,region\n100,12,false,0230,1\n,48,true,A7,2\n2500,,false,230,30\n-1,6,false,Zürich,1\n99,600,true,,2\n"
)
THREE = ["product", "amount", "banned"]
write(
    "classes",
    classifier(THREE, ["low", 'mid, "x"', "high"], 3, 9, 7, "SOFTMAX"),
    THREE,
    [tensor("label", TensorProto.STRING, [None]), tensor("probabilities", TensorProto.FLOAT, [None, 3])],
    "task: multiclass\noutcome: ok\nclasses: [low, 'mid, \"x\"', high]\n"
    "onnx: { file: model.onnx, sha256: SHA256, probabilities: probabilities, label: label }\ncolumns:\n"
    + PRODUCT + "    unseen: missing\n" + AMOUNT + BANNED
    + "inputs:\n  - { name: x, type: float32, columns: [product, amount, banned] }\noutput: { kind: probability }\n",
)
VALUE = ["region", "amount", "term"]
write(
    "value",
    regressor(VALUE, 8, 11),
    VALUE,
    [tensor("value", TensorProto.FLOAT, [None, 1])],
    "task: regression\noutcome: ok\nonnx: { file: model.onnx, sha256: SHA256, value: value }\ncolumns:\n"
    + REGION + "    missing: { as: value, value: -1 }\n    unseen: missing\n" + AMOUNT + TERM
    + "inputs:\n  - { name: x, type: float32, columns: [region, amount, term] }\noutput: { kind: value }\n",
)
