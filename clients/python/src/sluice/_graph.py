"""Builds an ONNX graph whose inputs are the columns of a table, one float input [rows, 1] per column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Operator sets that ONNX Runtime of Sluice and its native evaluator support.
OPSETS = {"": 15, "ai.onnx.ml": 3}
_TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}


@dataclass(frozen=True)
class Source:
    """A column of the table as a feature: its number, or with `coded` the number that its encoding gives."""

    column: str
    coded: bool = False


@dataclass(frozen=True)
class Tensor:
    """A tensor [rows, width] of type float32 or float64."""

    name: str
    width: int
    dtype: str


#: Features in order: columns as they are encoded, and tensors.
Block = list["Source | Tensor"]


def width_of(block: Block) -> int:
    """Number of features in a block."""
    return sum(part.width if isinstance(part, Tensor) else 1 for part in block)


class GraphBuilder:
    """Collects nodes. `doubles`: columns whose inputs are float64, because their numbers are used in float64."""

    def __init__(self, doubles: frozenset[str] = frozenset()) -> None:
        self.doubles = doubles
        #: Columns that were used in float64.
        self.wants_double: set[str] = set()
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.columns: list[str] = []
        self._inputs: dict[str, str] = {}
        self._count = 0

    def name(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, value: Any, dtype: Any) -> str:
        name = self.name("k")
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype=dtype), name)
        return name

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], domain=domain, **attributes))
        return out

    def input(self, column: str) -> Tensor:
        """The graph input of a column."""
        if column not in self._inputs:
            self._inputs[column] = f"column_{len(self.columns)}"
            self.columns.append(column)
        return Tensor(self._inputs[column], 1, "float64" if column in self.doubles else "float32")

    @property
    def input_names(self) -> dict[str, str]:
        """Column → name of its graph input."""
        return dict(self._inputs)

    def tensor(self, block: Block, dtype: str) -> Tensor:
        """All features of a block as one tensor."""
        parts: list[Tensor] = []
        for part in block:
            if isinstance(part, Source):
                if dtype == "float64":
                    self.wants_double.add(part.column)
                part = self.input(part.column)
            parts.append(self.cast(part, dtype))
        if len(parts) == 1:
            return parts[0]
        name = self.node("Concat", *(p.name for p in parts), axis=1)
        return Tensor(name, sum(p.width for p in parts), dtype)

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        if tensor.dtype == dtype:
            return tensor
        return Tensor(self.node("Cast", tensor.name, to=_TYPES[dtype]), tensor.width, dtype)

    def elementwise(self, op: str, x: Tensor, values: Any) -> Tensor:
        """Applies Add, Sub, Mul or Div with one number per feature."""
        row = np.broadcast_to(np.asarray(values, dtype=np.float64), (x.width,)).reshape(1, -1)
        return Tensor(self.node(op, x.name, self.constant(row, x.dtype)), x.width, x.dtype)

    def replace_missing(self, x: Tensor, values: Sequence[float]) -> Tensor:
        """Puts one number per feature in place of NaN."""
        row = np.asarray(values, dtype=np.float64).reshape(1, -1)
        name = self.node("Where", self.node("IsNaN", x.name), self.constant(row, x.dtype), x.name)
        return Tensor(name, x.width, x.dtype)

    def pick(self, x: Tensor, indices: Sequence[int]) -> Tensor:
        """Selects features by position."""
        if list(indices) == list(range(x.width)):
            return x
        name = self.node("Gather", x.name, self.constant(list(indices), np.int64), axis=1)
        return Tensor(name, len(indices), x.dtype)

    def one_hot(self, x: Tensor, categories: int) -> Tensor:
        """Codes 0…categories-1 [rows, 1] → [rows, categories]; other codes give zeros."""
        codes = self.node("Cast", x.name, to=TensorProto.INT64)
        wide = self.node("OneHotEncoder", codes, domain="ai.onnx.ml", cats_int64s=list(range(categories)), zeros=1)
        flat = self.node("Reshape", wide, self.constant([-1, categories], np.int64))
        return Tensor(flat, categories, "float32")

    def append(self, model: Any, x: Tensor) -> list[str]:
        """Appends a converted model with one input. Returns the names of its outputs."""
        prefix = self.name("m") + "_"
        inner = model.graph
        known = {inner.input[0].name: x.name}
        for constant in inner.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(constant)
            copy.name = prefix + constant.name
            known[constant.name] = copy.name
            self.constants[copy.name] = copy
        for node in inner.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = prefix + self.name("n")
            copy.input[:] = [known.get(i, i) for i in node.input]
            for out in node.output:
                known[out] = prefix + out if out else ""
            copy.output[:] = [known[o] for o in node.output]
            self.nodes.append(copy)
        return [known[o.name] for o in inner.output]

    def model(self, outputs: Sequence[tuple[str, Any]]) -> Any:
        """The finished model. `outputs`: tensor and value info (name, type, shape) of each output."""
        nodes = list(self.nodes)
        infos = []
        for tensor, info in outputs:
            nodes.append(helper.make_node("Identity", [tensor], [info.name]))
            infos.append(info)
        inputs = [
            helper.make_tensor_value_info(self._inputs[c], _TYPES[self.input(c).dtype], [None, 1]) for c in self.columns
        ]
        graph = helper.make_graph(nodes, "sluice", inputs, infos, list(self.constants.values()))
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="sluice-client", ir_version=8)
        onnx.checker.check_model(model)
        return model
