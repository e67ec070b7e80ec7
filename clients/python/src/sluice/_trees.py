"""Tree ensembles as ONNX models with float64 thresholds, which the exporters round to float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ._errors import Problem
from ._graph import OPSETS, GraphBuilder
from ._steps import Unsupported


class TreeLists:
    """Collects the nodes of an ensemble in the attributes of TreeEnsembleRegressor."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[Any]] = {
            name: []
            for name in (
                "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                "missing_value_tracks_true",
            )
        }  # fmt: skip
        self.targets: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def _node(
        self, tree: int, node: int, feature: int, value: float, mode: str, left: int, right: int, missing: int
    ) -> None:
        for values, value_ in zip(self.nodes.values(), (tree, node, feature, value, mode, left, right, missing)):
            values.append(value_)

    def split(
        self, tree: int, node: int, feature: int, threshold: float, left: int, right: int, missing_left: bool
    ) -> None:
        """A node that sends feature <= threshold to the left."""
        self._node(tree, node, feature, threshold, "BRANCH_LEQ", left, right, int(missing_left))

    def leaf(self, tree: int, node: int, target: int, weight: float) -> None:
        self._node(tree, node, 0, 0.0, "LEAF", 0, 0, 0)
        for values, value in zip(self.targets.values(), (tree, node, target, weight)):
            values.append(value)

    def model(self, base: Sequence[float], classes: Any, link: str, slope: float, width: int) -> Any:
        """The ONNX model. `classes`: labels, None for a regression. `link`: identity, exp, sigmoid or softmax.

        `slope`: factor of the raw score before the sigmoid. `width`: number of features.
        """
        b = GraphBuilder()
        lists = {f"nodes_{name}": values for name, values in self.nodes.items() if name != "values"}
        lists |= {f"target_{name}": values for name, values in self.targets.items() if name != "weights"}
        doubles = {
            "nodes_values": self.nodes["values"],
            "target_weights": self.targets["weights"],
            "base_values": list(base),
        }
        tensors = {
            f"{name}_as_tensor": numpy_helper.from_array(np.asarray(values, dtype=np.float64), name)
            for name, values in doubles.items()
        }
        raw = b.node("TreeEnsembleRegressor", "X", domain="ai.onnx.ml", n_targets=len(base), post_transform="NONE", **lists, **tensors)  # fmt: skip
        if classes is None:
            value = b.node("Exp", raw) if link == "exp" else raw
            outputs = [(value, helper.make_tensor_value_info("variable", TensorProto.FLOAT, [None, 1]))]
        else:
            outputs = class_outputs(b, raw, classes, link, slope)
        nodes = [*b.nodes, *(helper.make_node("Identity", [name], [info.name]) for name, info in outputs)]
        x = helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, width])
        graph = helper.make_graph(nodes, "trees", [x], [info for _, info in outputs], list(b.constants.values()))
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid(d, v) for d, v in OPSETS.items()], ir_version=8
        )


def class_outputs(b: GraphBuilder, raw: str, classes: Any, link: str, slope: float) -> list[tuple[str, Any]]:
    """The label and the probabilities of a classifier."""
    if link == "sigmoid":
        scaled = raw if slope == 1 else b.node("Mul", raw, b.constant([[slope]], np.float32))
        positive = b.node("Sigmoid", scaled)
        negative = b.node("Sub", b.constant([[1.0]], np.float32), positive)
        probabilities = b.node("Concat", negative, positive, axis=1)
    else:
        probabilities = b.node("Softmax", raw, axis=1)
    labels = np.asarray(classes)
    is_text = labels.dtype.kind in "OUS"
    kind = TensorProto.STRING if is_text else TensorProto.INT64
    values: Any = [str(c).encode() for c in labels] if is_text else [int(c) for c in labels]
    b.constants["classes"] = helper.make_tensor("classes", kind, [len(labels)], values)
    index = b.node("ArgMax", probabilities, axis=1, keepdims=0)
    picked = b.node("ArrayFeatureExtractor", "classes", index, domain="ai.onnx.ml")
    label = b.node("Reshape", picked, b.constant([-1], np.int64))
    return [
        (label, helper.make_tensor_value_info("label", kind, [None])),
        (probabilities, helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, len(labels)])),
    ]


def histogram(estimator: Any) -> Any:
    """Histogram gradient boosting of scikit-learn without categorical features."""
    lists = TreeLists()
    tree = 0
    for iteration in estimator._predictors:
        for target, predictor in enumerate(iteration):
            for at, node in enumerate(predictor.nodes):
                if node["is_leaf"]:
                    lists.leaf(tree, at, target, float(node["value"]))
                else:
                    lists.split(
                        tree, at, int(node["feature_idx"]), float(node["num_threshold"]),
                        int(node["left"]), int(node["right"]), bool(node["missing_go_to_left"]),
                    )  # fmt: skip
            tree += 1
    base = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1).tolist()
    width = int(estimator.n_features_in_)
    if not hasattr(estimator, "classes_"):
        return lists.model(base, None, "exp" if estimator.loss in ("poisson", "gamma") else "identity", 1, width)
    return lists.model(base, estimator.classes_, "sigmoid" if len(base) == 1 else "softmax", 1, width)


def unsupported(estimator: Any, why: str, remedy: str) -> Unsupported:
    return Unsupported(Problem(f"estimator {type(estimator).__name__}", why, remedy))


LIGHTGBM_LINKS = {
    "binary": "sigmoid", "multiclass": "softmax", "regression": "identity", "regression_l1": "identity",
    "huber": "identity", "fair": "identity", "quantile": "identity", "mape": "identity",
    "poisson": "exp", "gamma": "exp", "tweedie": "exp",
}  # fmt: skip


def early_stop_problem(estimator: Any, what: str) -> Problem | None:
    """The problem of a LightGBM estimator that stops the prediction of confident rows early.

    The comparison cannot be relied on to find it: the margin decides which rows it affects.
    """
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    if str(parameters.get("pred_early_stop", False)).lower() in ("false", "0", "none"):
        return None
    return Problem(
        what,
        "with pred_early_stop its predict leaves out trees for some rows, and the model file does not",
        "Call model.set_params(pred_early_stop=False), and check that its predictions are those that you want.",
    )


def lightgbm_trees(estimator: Any) -> Any:
    """LightGBM after preprocessing that an encoding cannot express. Raises Unsupported."""
    problem = early_stop_problem(estimator, f"estimator {type(estimator).__name__}")
    if problem is not None:
        raise Unsupported(problem)
    booster = getattr(estimator, "booster_", estimator)
    dump = booster.dump_model()
    name, *options = str(dump.get("objective", "custom")).split(" ")
    link = LIGHTGBM_LINKS.get(name)
    if link is None or dump.get("average_output") or "sqrt" in options:
        raise unsupported(estimator, f"objective {name} with these settings has no conversion", "Use binary, multiclass or regression with boosting gbdt.")  # fmt: skip
    slope = next((float(o.split(":")[1]) for o in options if o.startswith("sigmoid:")), 1.0)
    targets = int(dump["num_tree_per_iteration"])
    lists = TreeLists()
    for tree, info in enumerate(dump["tree_info"]):
        add_lightgbm_tree(lists, tree, tree % targets, info["tree_structure"], estimator)
    classes = getattr(estimator, "classes_", None)
    if classes is None and link in ("sigmoid", "softmax"):
        classes = np.arange(max(2, targets))
    return lists.model([0.0] * targets, classes, link, slope, int(booster.num_feature()))


def add_lightgbm_tree(lists: TreeLists, tree: int, target: int, root: Any, estimator: Any) -> None:
    waiting = [(0, root)]
    count = 1
    while waiting:
        at, node = waiting.pop()
        if "split_feature" not in node:
            if "leaf_coeff" in node:
                raise unsupported(estimator, "linear_tree has no conversion", "Fit with linear_tree=False.")
            lists.leaf(tree, at, target, float(node["leaf_value"]))
            continue
        if node["decision_type"] != "<=":
            raise unsupported(estimator, "its splits by category follow a step that an encoding cannot express", "Use OrdinalEncoder for the categories and pass numbers through.")  # fmt: skip
        kind = node["missing_type"]
        if kind == "Zero":
            raise unsupported(estimator, "zero_as_missing has no conversion", "Fit with zero_as_missing=False.")
        threshold = float(node["threshold"])
        # Without missing values in training, LightGBM reads NaN as 0.
        missing_left = bool(node["default_left"]) if kind == "NaN" else threshold >= 0
        left, right = count, count + 1
        count += 2
        lists.split(tree, at, int(node["split_feature"]), threshold, left, right, missing_left)
        waiting += [(left, node["left_child"]), (right, node["right_child"])]


def lightgbm_splits(estimator: Any) -> list[tuple[int, float]]:
    """(feature, threshold) of every split by number."""
    found: list[tuple[int, float]] = []
    dump = getattr(estimator, "booster_", estimator).dump_model()
    waiting = [info["tree_structure"] for info in dump["tree_info"]]
    while waiting:
        node = waiting.pop()
        if "split_feature" in node:
            if node["decision_type"] == "<=":
                found.append((int(node["split_feature"]), float(node["threshold"])))
            waiting += [node["left_child"], node["right_child"]]
    return found


def restore_missing_directions(model: Any, trees: Sequence[Any]) -> None:
    """Sets the direction of missing values at every split, which skl2onnx omits.

    `trees`: the fitted trees (`tree_`) in the order in which skl2onnx writes them. Without a match, nothing changes.
    """
    waiting = list(trees)
    found: list[tuple[Any, list[int]]] = []
    for node in model.graph.node:
        if not node.op_type.startswith("TreeEnsemble"):
            continue
        attributes = {a.name: a for a in node.attribute}
        ids, modes = list(attributes["nodes_treeids"].ints), list(attributes["nodes_modes"].strings)
        directions: list[int] = []
        for tree_id in dict.fromkeys(ids):
            if not waiting:
                return
            tree = waiting.pop(0)
            own = [mode for mode, i in zip(modes, ids) if i == tree_id]
            if len(own) != tree.node_count or any((m == b"LEAF") != (f < 0) for m, f in zip(own, tree.feature)):
                return
            directions += [int(left) for left in tree.missing_go_to_left]
        found.append((node, directions))
    if waiting:
        return
    for node, directions in found:
        kept = [a for a in node.attribute if a.name != "nodes_missing_value_tracks_true"]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("nodes_missing_value_tracks_true", directions)])
