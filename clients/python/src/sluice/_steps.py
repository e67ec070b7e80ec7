"""Carries fitted scikit-learn transformers over: each step becomes an encoding rule or nodes of an ONNX graph."""

from __future__ import annotations

import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ._encoding import Rule
from ._errors import Problem, first_line
from ._frame import Column, is_missing, kind_of
from ._graph import OPSETS, Block, GraphBuilder, Source, Tensor
from ._tables import Table, tabulate

#: Transformers whose output for a column depends on this column alone, and that accept texts.
ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "BinningProcess")


class Unsupported(Exception):
    """A step that cannot be carried over."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.why)


def class_of(step: Any) -> str:
    return type(step).__name__


def is_of(step: Any, *names: str) -> bool:
    """Whether the step is a class of scikit-learn with one of these names, and not a subclass."""
    return class_of(step) in names and type(step).__module__.split(".")[0] == "sklearn"


def is_encoder(step: Any) -> bool:
    return is_of(step, *ENCODERS) or (
        class_of(step) == "BinningProcess" and type(step).__module__.startswith("optbinning")
    )


def is_plain_imputer(step: Any) -> bool:
    """Whether the step only replaces missing values, and keeps every column."""
    if not is_of(step, "SimpleImputer") or step.add_indicator or not is_missing(step.missing_values):
        return False
    if getattr(step, "keep_empty_features", False):
        return True
    return not any(isinstance(v, float) and math.isnan(v) for v in step.statistics_.tolist())


class Carrier:
    """Walks through fitted transformers.

    `columns`: the columns of the frame, or their problems. `uses`: how often each column is used, from an earlier walk.
    """

    def __init__(
        self, columns: dict[str, Column | Problem], builder: GraphBuilder, earlier: Carrier | None = None
    ) -> None:
        self.columns = columns
        self.builder = builder
        self.earlier = earlier
        self.problems: list[Problem] = []
        self.rules: dict[str, Rule] = {}
        self.uses: Counter[str] = Counter()
        self.coded_uses: dict[str, list[Table]] = {}
        self._tables: dict[tuple[int, ...], list[Table] | Problem] = earlier._tables if earlier else {}

    # Columns

    def problem(self, what: str, why: str, remedy: str) -> None:
        found = Problem(what, why, remedy)
        if found not in self.problems:
            self.problems.append(found)

    def column(self, name: str) -> Column | None:
        """The column; None if it has a problem, which is recorded."""
        found = self.columns[name]
        if isinstance(found, Problem):
            if found not in self.problems:
                self.problems.append(found)
            return None
        return found

    def use_number(self, name: str, label: str, missing: float = math.nan) -> None:
        """Records that a column is used as a number. `missing`: what replaces a missing value."""
        column = self.column(name)
        if column is None:
            return
        if column.kind == "text":
            self.problem(
                f"column {name}",
                f"its texts reach {label} without an encoder",
                "Encode them in a ColumnTransformer with OneHotEncoder, OrdinalEncoder or TargetEncoder.",
            )
            return
        rule = self.rules.get(name)
        if rule is not None and rule.kind == "category":
            self._used_twice(name)
            return
        if rule is None:
            self.rules[name] = Rule(name, "boolean" if column.is_boolean else "number", missing)

    def _used_twice(self, name: str) -> None:
        self.problem(
            f"column {name}",
            "it is used both as a number and as a category",
            "Copy it to a second column, and fit again with one use of each.",
        )

    def numeric(self, block: Block, label: str) -> None:
        """Records that every feature of a block is used as a number."""
        for part in block:
            if isinstance(part, Source) and not part.coded:
                self.uses[part.column] += 1
                self.use_number(part.column, label)

    # Steps

    def pipeline(self, steps: Sequence[tuple[str, Any]], block: Block, path: str) -> Block:
        """Carries a sequence of steps over."""
        at = 0
        while at < len(steps):
            run = self._encoding_run(steps[at:], block)
            if run > 0:
                chain = [step for _, step in steps[at : at + run]]
                block = self.encode(chain, block, f"{path}{steps[at + run - 1][0]} ({class_of(chain[-1])})")
                at += run
                continue
            name, step = steps[at]
            block = self.step(step, block, f"{path}{name}")
            at += 1
        return block

    def _encoding_run(self, steps: Sequence[tuple[str, Any]], block: Block) -> int:
        """Number of leading steps that one table per column replaces: imputers and encoders, up to a OneHotEncoder."""
        if not block or not all(isinstance(part, Source) and not part.coded for part in block):
            return 0
        run = 0
        for at, (_, step) in enumerate(steps):
            if is_encoder(step):
                run = at + 1
                if not is_of(step, "OrdinalEncoder"):
                    break
            elif not is_plain_imputer(step):
                break
            elif run > 0:
                run = at + 1
        return run

    def step(self, step: Any, block: Block, label: str) -> Block:
        """Carries one fitted transformer over."""
        if isinstance(step, str) or step is None:
            return [] if step == "drop" else block
        title = f"{label} ({class_of(step)})"
        if self._encoding_run([("", step)], block) == 1:
            return self.encode([step], block, title)
        if class_of(step) == "Pipeline" and hasattr(step, "steps"):
            return self.pipeline(step.steps, block, f"{label}/")
        if is_of(step, "ColumnTransformer"):
            return self.column_transformer(step, block, label)
        if is_of(step, "FeatureUnion"):
            return [
                part
                for name, inner in step.transformer_list
                if not (isinstance(inner, str) and inner == "drop")
                for part in self.weighted(step, name, self.step(inner, list(block), f"{label}/{name}"), title)
            ]
        try:
            return self.leaf(step, block, title)
        except Unsupported as error:
            self.problems.append(error.problem)
            return [Tensor("", 1, "float64")]

    def column_transformer(self, step: Any, block: Block, label: str) -> Block:
        """Applies each fitted branch to its columns. The branches are resolved: selectors have become columns."""
        if not all(isinstance(part, Source) and not part.coded for part in block):
            self.problem(
                f"{label} (ColumnTransformer)",
                "it follows another step, so it selects columns of an array",
                "Make it the first step of the pipeline.",
            )
            return block
        names = [part.column for part in block if isinstance(part, Source)]
        out: Block = []
        for name, inner, selected in step.transformers_:
            chosen = columns_of(selected, names)
            if not chosen or (isinstance(inner, str) and inner == "drop"):
                continue
            part = self.step(inner, [Source(c) for c in chosen], f"{label}/{name}")
            out += self.weighted(step, name, part, f"{label} (ColumnTransformer)")
        return out

    def weighted(self, step: Any, name: str, block: Block, title: str) -> Block:
        """Multiplies a branch by its weight."""
        weight = (step.transformer_weights or {}).get(name)
        if weight is None or not block:
            return block
        self.numeric(block, title)
        if self.problems:
            return block
        return [self.builder.elementwise("Mul", self.builder.tensor(block, "float64"), float(weight))]

    def encode(self, chain: Sequence[Any], block: Block, label: str) -> Block:
        """Replaces imputers and encoders by one table per column."""
        names = [part.column for part in block if isinstance(part, Source)]
        columns = [self.column(n) for n in names]
        if any(c is None for c in columns):
            return [Tensor("", 1, "float64")]
        key = tuple(id(step) for step in chain)
        if key not in self._tables:
            self._tables[key] = tables_of(chain, [c for c in columns if c is not None], label)
        tables = self._tables[key]
        if isinstance(tables, Problem):
            self.problems.append(tables)
            return [Tensor("", 1, "float64")]
        out: Block = []
        for table in tables:
            self.uses[table.column] += 1
            self.coded_uses.setdefault(table.column, []).append(table)
            out += self._coded(table)
        return out

    def _coded(self, table: Table) -> Block:
        name = table.column
        rule = self.rules.get(name)
        if rule is not None and (rule.kind == "number" or (rule.kind == "boolean" and not rule.codes)):
            self._used_twice(name)
            return [Tensor("", 1, "float64")]
        if table.width == 0:
            return []
        everywhere = self.earlier.coded_uses.get(name, [table]) if self.earlier else [table]
        joint = any(other.rows != table.rows or other.missing != table.missing for other in everywhere)
        kind = "boolean" if table.boolean else "category"
        if not joint and table.width == 1:
            self.rules[name] = Rule(
                name,
                kind,
                "error" if table.missing is None else table.missing[0],
                {text: row[0] for text, row in table.rows.items()},
                "error" if table.unseen is None else table.unseen[0],
            )
            return [Source(name, coded=True)]
        hot = None if joint else positions(table)
        if hot is not None:
            self.rules[name] = Rule(name, kind, hot.missing, hot.codes, hot.unseen)
            return [self.builder.one_hot(self.builder.input(name), table.width)]
        return self._by_number(table, everywhere, kind)

    def _by_number(self, table: Table, everywhere: Sequence[Table], kind: str) -> Block:
        """Numbers the categories of all uses of a column, and looks this table's features up by number."""
        texts = list(dict.fromkeys(text for t in everywhere for text in t.rows))
        known = [t for t in texts if all(t in other.rows or other.unseen is not None for other in everywhere)]
        entries = [table.rows.get(text, table.unseen) for text in known]
        misses = all(t.missing is not None for t in everywhere)
        unknowns = all(t.unseen is not None for t in everywhere)
        features = [*entries, table.missing if misses else None, table.unseen if unknowns else None]
        zeros = (0.0,) * table.width
        matrix = np.asarray([zeros if f is None else f for f in features], dtype=np.float64)
        if np.isnan(matrix).any():
            self.problem(
                f"column {table.column}",
                "two encoders use it, and one of them returns NaN for some value",
                "Use one encoder, or give the missing and unknown values of the encoder a number.",
            )
            return [Tensor("", 1, "float64")]
        self.rules[table.column] = Rule(
            table.column,
            kind,
            float(len(known)) if misses else "error",
            {text: float(i) for i, text in enumerate(known)},
            float(len(known) + 1) if unknowns else "error",
        )
        hot = self.builder.cast(self.builder.one_hot(self.builder.input(table.column), len(features)), "float64")
        product = self.builder.node("MatMul", hot.name, self.builder.constant(matrix, np.float64))
        return [Tensor(product, table.width, "float64")]

    def leaf(self, step: Any, block: Block, title: str) -> Block:
        """Carries a transformer of numbers over."""
        if type(step).__module__.split(".")[0] != "sklearn":
            raise Unsupported(
                Problem(
                    f"step {title}",
                    f"its code is Python of {type(step).__module__}, which Sluice does not run",
                    "Compute these columns before fitting, and send them with each application.",
                )
            )
        if is_of(step, "FunctionTransformer"):
            if step.func is None:
                return block
            raise Unsupported(
                Problem(
                    f"step {title}",
                    f"its function {getattr(step.func, '__name__', step.func)!s} is Python code",
                    "Compute the column before fitting, or use a transformer of scikit-learn.",
                )
            )
        texts = [
            c.column for c in block if isinstance(c, Source) and not c.coded
            and isinstance(self.columns[c.column], Column) and self.columns[c.column].kind == "text"  # type: ignore[union-attr]
        ]  # fmt: skip
        self.numeric(block, title)
        if texts or self.problems:
            # The widths of later steps do not matter any more.
            return [part for part in block if not (isinstance(part, Source) and part.column in texts)]
        emit = LEAVES.get(class_of(step))
        if emit is not None:
            return emit(self, step, block, title)
        return self._by_skl2onnx(step, block, title)

    def _by_skl2onnx(self, step: Any, block: Block, title: str) -> Block:
        if hasattr(step, "get_support"):
            return [
                self.builder.pick(self.builder.tensor(block, "float64"), np.flatnonzero(step.get_support()).tolist())
            ]
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import DoubleTensorType

        x = self.builder.tensor(block, "float64")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = convert_sklearn(
                    step, initial_types=[("X", DoubleTensorType([None, x.width]))], target_opset=OPSETS
                )
        except Exception as error:
            raise Unsupported(
                Problem(
                    f"step {title}",
                    f"skl2onnx cannot convert it: {first_line(error)}",
                    "Replace the step, or compute its columns before fitting.",
                )
            ) from error
        [out, *_] = self.builder.append(model, x)
        width = len(step.get_feature_names_out()) if hasattr(step, "get_feature_names_out") else x.width
        return [Tensor(out, width, "float64")]


def columns_of(selected: Any, names: Sequence[str]) -> list[str]:
    """The names of the columns of a fitted branch: names, positions, a mask or a slice."""
    if isinstance(selected, str):
        return [selected]
    if isinstance(selected, slice):
        at = {n: i for i, n in enumerate(names)}
        if isinstance(selected.start, str) or isinstance(selected.stop, str):
            first = at[selected.start] if selected.start is not None else 0
            last = at[selected.stop] + 1 if selected.stop is not None else len(names)
            return list(names[first:last])
        return list(names[selected])
    if isinstance(selected, numbers.Integral):
        return [names[int(selected)]]
    listed = list(selected)
    if listed and all(isinstance(s, (bool, np.bool_)) for s in listed):
        return [n for n, s in zip(names, listed) if s]
    return [s if isinstance(s, str) else names[int(s)] for s in listed]


# Tables of encoders


class Positions:
    """Codes of a one-hot encoding: the position of the feature that is 1, or -1 if there is none."""

    def __init__(self, codes: dict[str, float], missing: float | str, unseen: float | str) -> None:
        self.codes, self.missing, self.unseen = codes, missing, unseen


def positions(table: Table) -> Positions | None:
    """The codes if every row of the table is one-hot or zero; None otherwise."""

    def position(row: tuple[float, ...] | None) -> float | str | None:
        if row is None:
            return "error"
        if any(v not in (0.0, 1.0) for v in row) or sum(row) > 1:
            return None
        return float(row.index(1.0)) if 1.0 in row else -1.0

    codes = {text: position(row) for text, row in table.rows.items()}
    missing, unseen = position(table.missing), position(table.unseen)
    if missing is None or unseen is None or any(not isinstance(c, float) for c in codes.values()):
        return None
    return Positions({t: c for t, c in codes.items() if isinstance(c, float)}, missing, unseen)


def tables_of(chain: Sequence[Any], columns: Sequence[Column], label: str) -> list[Table] | Problem:
    """Tabulates a chain of imputers that ends in an encoder."""
    encoder = next(step for step in reversed(chain) if is_encoder(step))
    if class_of(encoder) == "BinningProcess":
        return binned(chain, columns, label)

    def encode(frame: pd.DataFrame) -> np.ndarray:
        frame.columns = [c.name for c in columns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data: Any = frame
            for step in chain:
                data = step.transform(data)
        if hasattr(data, "toarray"):
            data = data.toarray()
        return np.asarray(data, dtype=np.float64)

    first = next(step for step in chain if is_encoder(step))
    known = [list(c) for c in first.categories_]
    widths = feature_widths(encoder, len(columns))
    starts = np.cumsum([0, *widths])
    slices = [slice(int(a), int(b)) for a, b in zip(starts, starts[1:])]
    return tabulate(columns, known, slices, encode)


def feature_widths(encoder: Any, columns: int) -> list[int]:
    """Number of features per column."""
    if is_of(encoder, "OneHotEncoder"):
        return [int(n) for n in encoder._n_features_outs]
    if is_of(encoder, "TargetEncoder") and getattr(encoder, "target_type_", "") == "multiclass":
        return [len(encoder.classes_)] * columns
    return [1] * columns


def binned(chain: Sequence[Any], columns: Sequence[Column], label: str) -> list[Table] | Problem:
    """Tabulates WOE of optbinning for category columns; number columns have intervals instead of values."""
    if len(chain) > 1:
        return Problem(f"step {label}", "an imputer precedes the binning", "Let BinningProcess treat missing values.")
    process = chain[0]
    numerical = [c.name for c in columns if process.get_binned_variable(c.name).dtype == "numerical"]
    if numerical:
        return Problem(
            f"step {label}",
            f"it bins the numbers of {', '.join(numerical)}",
            "Bin numbers with KBinsDiscretizer, and use the WOE of optbinning for categories only.",
        )
    chosen = list(process.get_support(names=True))

    def encode(frame: pd.DataFrame) -> np.ndarray:
        frame.columns = [c.name for c in columns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(process.transform(frame), dtype=np.float64)

    at = [chosen.index(c.name) if c.name in chosen else -1 for c in columns]
    slices = [slice(i, i + 1) if i >= 0 else slice(0, 0) for i in at]
    known = [binned_categories(process.get_binned_variable(c.name), c) for c in columns]
    return tabulate(columns, known, slices, encode)


def binned_categories(variable: Any, column: Column) -> list[Any]:
    """Categories that the binning knows although the frame may lack them: those of its bins, and its special codes."""
    special = variable.special_codes
    groups = list(special.values()) if isinstance(special, dict) else [[] if special is None else special]
    values = [value for group in (*variable.splits, *groups) for value in np.ravel(np.asarray(group, dtype=object))]
    return [v for v in (*column.distinct(), *values) if not is_missing(v) and kind_of(v) == column.kind]


# Transformers of numbers, in float64 like scikit-learn

Emit = Callable[[Carrier, Any, Block, str], Block]


def impute(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    """SimpleImputer. A column that only this step uses gets the statistic as its missing value in the encoding."""
    fill = [float(v) for v in np.asarray(step.statistics_, dtype=np.float64)]
    kept = [i for i, v in enumerate(fill) if not math.isnan(v) or getattr(step, "keep_empty_features", False)]
    fill = [0.0 if math.isnan(v) else v for v in fill]
    whole = is_plain_imputer(step)
    out: Block = []
    if whole and all(isinstance(part, Source) for part in block):
        for part, value in zip(block, fill):
            assert isinstance(part, Source)
            alone = carrier.earlier is not None and carrier.earlier.uses[part.column] == 1
            if alone and not part.coded:
                carrier.rules[part.column].missing = value
                out.append(part)
            else:
                out.append(carrier.builder.replace_missing(carrier.builder.tensor([part], "float64"), [value]))
        return out
    x = carrier.builder.tensor(block, "float64")
    chosen = carrier.builder.pick(x, kept)
    values = [fill[i] for i in kept]
    if is_missing(step.missing_values):
        out.append(carrier.builder.replace_missing(chosen, values))
        absent = carrier.builder.node("IsNaN", x.name)
    else:
        mark = carrier.builder.constant([[float(step.missing_values)]], np.float64)
        where = carrier.builder.node("Equal", chosen.name, mark)
        row = carrier.builder.constant([values], np.float64)
        out.append(Tensor(carrier.builder.node("Where", where, row, chosen.name), len(kept), "float64"))
        absent = carrier.builder.node("Equal", x.name, mark)
    if step.add_indicator and len(step.indicator_.features_) > 0:
        flags = Tensor(carrier.builder.node("Cast", absent, to=11), x.width, "float64")
        out.append(carrier.builder.pick(flags, [int(i) for i in step.indicator_.features_]))
    return out


def missing_indicator(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    x = carrier.builder.tensor(block, "float64")
    if not is_missing(step.missing_values):
        raise Unsupported(
            Problem(f"step {title}", "its missing_values is not NaN", "Use NaN for missing values.")
        )
    flags = Tensor(carrier.builder.node("Cast", carrier.builder.node("IsNaN", x.name), to=11), x.width, "float64")
    return [carrier.builder.pick(flags, [int(i) for i in step.features_])]


def standard(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    x = carrier.builder.tensor(block, "float64")
    if step.with_mean:
        x = carrier.builder.elementwise("Sub", x, step.mean_)
    return [carrier.builder.elementwise("Div", x, step.scale_) if step.with_std else x]


def robust(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    x = carrier.builder.tensor(block, "float64")
    if step.with_centering:
        x = carrier.builder.elementwise("Sub", x, step.center_)
    return [carrier.builder.elementwise("Div", x, step.scale_) if step.with_scaling else x]


def clip(carrier: Carrier, x: Tensor, low: float, high: float) -> Tensor:
    bounds = [carrier.builder.constant(v, np.float64) for v in (low, high)]
    return Tensor(carrier.builder.node("Clip", x.name, *bounds), x.width, x.dtype)


def min_max(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    x = carrier.builder.elementwise("Mul", carrier.builder.tensor(block, "float64"), step.scale_)
    x = carrier.builder.elementwise("Add", x, step.min_)
    return [clip(carrier, x, *map(float, step.feature_range)) if step.clip else x]


def max_abs(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    return [carrier.builder.elementwise("Div", carrier.builder.tensor(block, "float64"), step.scale_)]


def at_least(carrier: Carrier, x: Tensor, edges: Sequence[float]) -> Tensor:
    """x ≥ edge for each edge, as 1 and 0: [rows, 1] → [rows, edges]."""
    less = carrier.builder.node("Less", x.name, carrier.builder.constant([list(edges)], np.float64))
    flags = carrier.builder.node("Cast", carrier.builder.node("Not", less), to=11)
    return Tensor(flags, len(edges), "float64")


def bins(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    """KBinsDiscretizer: the bin of a number is the count of inner edges that it reaches."""
    x = carrier.builder.tensor(block, "float64")
    out: Block = []
    for i, edges in enumerate(step.bin_edges_):
        inner = [float(e) for e in edges[1:-1]]
        one = carrier.builder.pick(x, [i]) if x.width > 1 else x
        if not inner:
            zero = carrier.builder.elementwise("Mul", at_least(carrier, one, [0.0]), 0.0)
            out.append(zero if step.encode == "ordinal" else carrier.builder.elementwise("Add", zero, 1.0))
            continue
        reached = at_least(carrier, one, inner)
        axis = carrier.builder.constant([1], np.int64)
        ordinal = Tensor(carrier.builder.node("ReduceSum", reached.name, axis, keepdims=1), 1, "float64")
        out.append(ordinal if step.encode == "ordinal" else carrier.builder.one_hot(ordinal, len(inner) + 1))
    return out


def polynomial(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    x = carrier.builder.tensor(block, "float64")
    out: Block = []
    for powers in step.powers_:
        factors = [i for i, p in enumerate(powers) for _ in range(int(p))]
        if not factors:
            first = carrier.builder.elementwise("Mul", carrier.builder.pick(x, [0]), 0.0)
            out.append(carrier.builder.elementwise("Add", first, 1.0))
            continue
        product = carrier.builder.pick(x, [factors[0]])
        for i in factors[1:]:
            other = carrier.builder.pick(x, [i])
            product = Tensor(carrier.builder.node("Mul", product.name, other.name), 1, "float64")
        out.append(product)
    return out


def power(carrier: Carrier, step: Any, block: Block, title: str) -> Block:
    """PowerTransformer: Yeo-Johnson or Box-Cox, then the scaler."""
    x = carrier.builder.tensor(block, "float64")
    b = carrier.builder
    parts: Block = []
    for i, exponent in enumerate(float(v) for v in step.lambdas_):
        one = b.pick(x, [i]) if x.width > 1 else x
        if step.method == "box-cox":
            parts.append(box_cox(b, one, exponent))
            continue
        zero = b.constant(0.0, np.float64)
        up = box_cox(b, b.elementwise("Add", Tensor(b.node("Max", one.name, zero), 1, "float64"), 1.0), exponent)
        mirrored = Tensor(b.node("Neg", b.node("Min", one.name, zero)), 1, "float64")
        down = b.node("Neg", box_cox(b, b.elementwise("Add", mirrored, 1.0), 2.0 - exponent).name)
        # Max and Min return NaN for NaN.
        parts.append(Tensor(b.node("Where", b.node("Less", one.name, zero), down, up.name), 1, "float64"))
    return standard(carrier, step._scaler, parts, title) if step.standardize else parts


def box_cox(b: GraphBuilder, x: Tensor, exponent: float) -> Tensor:
    """(x^λ - 1) / λ, or log x for λ = 0."""
    if abs(exponent) < np.spacing(1.0):
        return Tensor(b.node("Log", x.name), 1, "float64")
    raised = Tensor(b.node("Pow", x.name, b.constant(exponent, np.float64)), 1, "float64")
    return b.elementwise("Div", b.elementwise("Sub", raised, 1.0), exponent)


LEAVES: dict[str, Emit] = {
    "SimpleImputer": impute,
    "MissingIndicator": missing_indicator,
    "StandardScaler": standard,
    "RobustScaler": robust,
    "MinMaxScaler": min_max,
    "MaxAbsScaler": max_abs,
    "KBinsDiscretizer": bins,
    "PolynomialFeatures": polynomial,
    "PowerTransformer": power,
}
