"""Exact Shapley values of an ONNX tree ensemble, leaf by leaf, for players that each own any number of features.

interventional: v(S) is the mean over the background rows z of f(x on the columns of S, z on the others).
path-dependent: v(S) walks the trees; at a node that tests a player outside S both branches are taken, weighed by cover.

A leaf is reached when every condition on its path holds. For one leaf all that matters of a player is whether x (and z)
meets all of that player's conditions: so the sum over subsets closes into a few terms a leaf. This is written for being
checked, not for speed, and shares no code with the libraries it is compared with.
"""
from math import factorial

import numpy as np
import onnx
from numba import njit

LEAF = b"LEAF"
TEST = {b"BRANCH_LEQ": np.less_equal, b"BRANCH_LT": np.less, b"BRANCH_GTE": np.greater_equal, b"BRANCH_GT": np.greater,
        b"BRANCH_EQ": np.equal, b"BRANCH_NEQ": np.not_equal}


class Ensemble:
    """The one TreeEnsemble node of a model: `trees[treeid][nodeid]` is the index of a node in the arrays."""

    def __init__(self, model):
        (node,) = [n for n in model.graph.node if n.op_type in ("TreeEnsembleClassifier", "TreeEnsembleRegressor")]
        a = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
        ids = list(zip(a["nodes_treeids"], a["nodes_nodeids"]))
        at = {k: i for i, k in enumerate(ids)}
        self.mode = a["nodes_modes"]
        self.feature = a["nodes_featureids"]
        self.threshold = np.array(a["nodes_values"], dtype=np.float32)
        self.nan_true = a.get("nodes_missing_value_tracks_true") or [0] * len(ids)
        inner = [m != LEAF for m in self.mode]
        self.true = [at[t, c] if i else -1 for (t, _), c, i in zip(ids, a["nodes_truenodeids"], inner)]
        self.false = [at[t, c] if i else -1 for (t, _), c, i in zip(ids, a["nodes_falsenodeids"], inner)]
        self.inner = inner
        self.trees = {}
        for (t, n), i in zip(ids, range(len(ids))):
            self.trees.setdefault(t, {})[n] = i
        children = set(self.true) | set(self.false)
        self.roots = {t: next(i for i in nodes.values() if i not in children) for t, nodes in self.trees.items()}
        kind = "class" if node.op_type.endswith("Classifier") else "target"
        width = max(a[kind + "_ids"]) + 1
        self.weight = np.zeros((len(ids), width))
        for t, n, c, w in zip(*(a[f"{kind}_{k}"] for k in ("treeids", "nodeids", "ids", "weights"))):
            self.weight[at[t, n], c] += w
        base = a.get("base_values")
        self.base = np.zeros(width) if base is None or not len(base) else np.array(base, dtype=np.float64)
        if self.weight.shape[1] == 2 and not self.weight[:, 0].any():  # one column, named after the second class
            self.weight = self.weight[:, 1:]
            self.base = self.base[-1:]

    def leaves(self):
        """Each leaf with its path: [(node, its test is true on the path)]."""
        for root in self.roots.values():
            stack = [(root, [])]
            while stack:
                n, path = stack.pop()
                if self.inner[n]:
                    stack += [(self.true[n], path + [(n, True)]), (self.false[n], path + [(n, False)])]
                else:
                    yield n, path

    def meets(self, n, want, X):
        x = X[:, self.feature[n]]
        holds = np.where(np.isnan(x), bool(self.nan_true[n]), TEST[self.mode[n]](x, self.threshold[n]))
        return holds if want else ~holds

    def value(self, X):
        """The sums of the leaf weights, before any transformation."""
        out = np.zeros((len(X), self.weight.shape[1])) + self.base
        for leaf, path in self.leaves():
            on = np.ones(len(X), dtype=bool)
            for n, want in path:
                on &= self.meets(n, want, X)
            out[on] += self.weight[leaf]
        return out

    def conditions(self, path, players, *tables):
        """For each player on the path, one boolean array a table: does the row meet all conditions of the player?"""
        met = {}
        for n, want in path:
            p = players[self.feature[n]]
            now = [self.meets(n, want, X) for X in tables]
            met[p] = [a & b for a, b in zip(met[p], now)] if p in met else now
        return met


@njit
def _leaf_table(rows, others, counts, d, fact):
    """Effects of one leaf of weight 1: for each distinct bit pattern of x, summed over the bit patterns of z."""
    out = np.zeros((len(rows), d))
    full = (1 << d) - 1
    for i in range(len(rows)):
        for j in range(len(others)):
            a, b = rows[i], others[j]
            if (a | b) != full or a == b:
                continue
            na = nb = 0
            for k in range(d):
                na += 1 if (a >> k & 1) and not (b >> k & 1) else 0
                nb += 1 if (b >> k & 1) and not (a >> k & 1) else 0
            for k in range(d):
                xa, zb = a >> k & 1, b >> k & 1
                if xa and not zb:
                    out[i, k] += counts[j] * fact[na - 1] * fact[nb] / fact[na + nb]
                elif zb and not xa:
                    out[i, k] -= counts[j] * fact[na] * fact[nb - 1] / fact[na + nb]
    return out


def interventional(ensemble, X, Z, players, width):
    """base [outputs], effects [rows, outputs, players]"""
    X, Z = np.asarray(X, dtype=np.float32), np.asarray(Z, dtype=np.float32)
    fact = np.array([factorial(i) for i in range(21)], dtype=np.float64)
    out = np.zeros((len(X), ensemble.weight.shape[1], width))
    base = ensemble.base.copy()
    for leaf, path in ensemble.leaves():
        met = ensemble.conditions(path, players, X, Z)
        d = len(met)
        bits = [sum((m[t].astype(np.int64) << k for k, m in enumerate(met.values())), np.zeros(len(T), dtype=np.int64))
                for t, T in enumerate((X, Z))]
        base += ensemble.weight[leaf] * np.mean(bits[1] == (1 << d) - 1)
        rows, back = np.unique(bits[0], return_inverse=True)
        others, counts = np.unique(bits[1], return_counts=True)
        table = _leaf_table(rows, others, counts, d, fact)[back] / len(Z)
        for k, p in enumerate(met):
            out[:, :, p] += table[:, k, None] * ensemble.weight[leaf]
    return base, out


def path_dependent(ensemble, X, cover, players, width):
    """base [outputs], effects [rows, outputs, players]; `cover` is by node index."""
    X = np.asarray(X, dtype=np.float32)
    out = np.zeros((len(X), ensemble.weight.shape[1], width))
    base = ensemble.base.copy()
    for leaf, path in ensemble.leaves():
        share = {}  # of the node samples that go along the path at the nodes of this player
        for n, want in path:
            taken = ensemble.true[n] if want else ensemble.false[n]
            both = cover[ensemble.true[n]] + cover[ensemble.false[n]]
            p = players[ensemble.feature[n]]
            share[p] = share.get(p, 1) * (cover[taken] / both if both else 0)
        met = {p: m[0].astype(float) for p, m in ensemble.conditions(path, players, X).items()}
        d = len(met)
        base += ensemble.weight[leaf] * np.prod(list(share.values()))
        weights = [factorial(k) * factorial(d - 1 - k) / factorial(d) for k in range(d)]
        for i in met:
            sizes = np.zeros((len(X), d))  # by how many of the others are in S: the sum of their products
            sizes[:, 0] = 1
            for j in met:
                if j != i:
                    grown = sizes * share[j]
                    grown[:, 1:] += sizes[:, :-1] * met[j][:, None]
                    sizes = grown
            out[:, :, i] += ((sizes @ weights) * (met[i] - share[i]))[:, None] * ensemble.weight[leaf]
    return base, out


def path_dependent_brute(ensemble, x, cover, players, width, output):
    """Effects [players] of one row by the definition: every subset of the players, every walk."""
    masks = np.arange(1 << width)
    v = np.zeros(len(masks))

    def walk(n, weight):  # the weight of the node under each subset
        if not ensemble.inner[n]:
            v[:] += weight * ensemble.weight[n, output]
            return
        t, f = ensemble.true[n], ensemble.false[n]
        inside = masks >> players[ensemble.feature[n]] & 1
        goes = bool(ensemble.meets(n, True, x[None, :])[0])
        share = cover[t] / (cover[t] + cover[f]) if cover[t] + cover[f] else 0
        walk(t, weight * np.where(inside, goes, share))
        walk(f, weight * np.where(inside, not goes, 1 - share))

    for root in ensemble.roots.values():
        walk(root, np.ones(len(masks)))
    size = np.array([int(s).bit_count() for s in masks])
    out = np.zeros(width)
    for p in range(width):
        without = masks[(masks >> p & 1) == 0]
        w = np.array([factorial(k) * factorial(width - 1 - k) / factorial(width) for k in range(width)])[size[without]]
        out[p] = w @ (v[without | 1 << p] - v[without])
    return out
