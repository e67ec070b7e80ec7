"""How the texts of the application columns become the inputs of a model.

An encoding turns a table into one array a column (`arrays`), and those arrays into what the library takes (`assemble`)
or what ONNX Runtime takes (`feeds`). Columns are encoded independently of each other: mixing the arrays of two rows
column by column is the same as mixing the applications.
"""
import numpy as np
import pandas as pd
from skl2onnx.common import data_types as skl

from applications import BOOLEANS, CATEGORIES, LEVELS, NUMBERS, PARTNERS, PRODUCTS, VERIFICATORS

CODES = {**{c: {v: i for i, v in enumerate(lv)} for c, lv in LEVELS.items()},
         "credit_product_id": {v: i for i, v in enumerate(PRODUCTS)},
         "verificator_id": {v: i for i, v in enumerate(VERIFICATORS)},
         "partner_id": {v: i for i, v in enumerate(PARTNERS)}}
SKL_TYPES = {"float32": skl.FloatTensorType, "float64": skl.DoubleTensorType, "int64": skl.Int64TensorType,
             "bool": skl.BooleanTensorType, "string": skl.StringTensorType}
NUMPY_TYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "bool": bool, "string": object}


class Matrix:
    """One float32 input [rows, columns]. Described by the dictionary that codes.json holds."""

    def __init__(self, columns, name="input", missing=None, unseen=None, booleans=None, rounded=True):
        self.columns, self.name, self.rounded = list(columns), name, rounded
        self.missing, self.booleans = missing or {}, booleans or {}
        self.unseen = {"*": -1} if unseen is None else unseen
        self.categories = [c for c in columns if c in CATEGORIES]

    def codes(self):
        out = {"order": self.columns}
        if self.categories:
            out["codes"] = {c: CODES[c] for c in self.categories}
        if self.categories and self.unseen:
            out["unseen"] = self.unseen
        if self.missing:
            out["missing"] = self.missing
        if self.booleans:
            out["booleans"] = self.booleans
        return out

    def _rule(self, rules, column, default):
        return rules.get(column, rules.get("*", default))

    def refused(self, rows):
        """Which rows hold an unseen category that is an error."""
        out = np.zeros(len(rows), dtype=bool)
        for c in self.categories:
            if self._rule(self.unseen, c, "error") == "error":
                out |= ~rows[c].isin([*CODES[c], ""]).values
        return out

    def arrays(self, rows):
        out = []
        for c in self.columns:
            missing = float(self._rule(self.missing, c, "nan"))
            unseen = self._rule(self.unseen, c, "error")
            no, yes = self.booleans.get(c, [0, 1])

            def number(text):
                if text == "":
                    return missing
                if c in NUMBERS:
                    return float(text)
                if c in BOOLEANS:
                    return {"true": yes, "false": no}[text]
                if text in CODES[c]:
                    return CODES[c][text]
                if unseen == "error":
                    raise ValueError(f"{c}: unseen category")
                return missing if unseen == "missing" else unseen

            v = np.array([number(t) for t in rows[c]], dtype=np.float64)
            out.append(v.astype(np.float32).astype(np.float64) if self.rounded else v)
        return out

    def assemble(self, arrays):
        return np.column_stack(arrays)

    def feeds(self, rows):
        return {self.name: self.assemble(self.arrays(rows)).astype(np.float32)}

    def types(self, batch=None):
        return [(self.name, skl.FloatTensorType([batch, len(self.columns)]))]

    def register(self):
        return {"columns": self.columns, "encoding": "codes.json", "input": self.name}


class ColumnInputs:
    """One input [rows, 1] for each column. Numbers are of type `number`, booleans of type `boolean`."""

    def __init__(self, columns, number="float32", boolean="float32", text_missing="", boolean_missing=None,
                 whole=(), whole_missing=-1, number_missing=np.nan):
        self.columns = list(columns)
        no, yes = {"string": ("False", "True"), "bool": (False, True)}.get(boolean, (0, 1))
        if boolean_missing is None:
            boolean_missing = {"string": text_missing, "bool": False, "int64": -1}.get(boolean, 0)
        self.rules = {}
        for c in columns:
            if c in whole:
                self.rules[c] = {"type": "int64", "missing": whole_missing}
            elif c in NUMBERS:
                m = number_missing[c] if isinstance(number_missing, dict) else number_missing
                self.rules[c] = {"type": number, "missing": m}
            elif c in CATEGORIES:
                self.rules[c] = {"type": "string", "missing": text_missing}
            else:
                self.rules[c] = {"type": boolean, "false": no, "true": yes, "missing": boolean_missing}

    def refused(self, rows):
        return np.zeros(len(rows), dtype=bool)

    def arrays(self, rows):
        out = []
        for c, rule in self.rules.items():
            def value(text):
                if text == "":
                    return rule["missing"]
                if c in NUMBERS:
                    return float(text)
                return text if c in CATEGORIES else rule[text]

            v = [value(t) for t in rows[c]]
            if rule["type"] == "float32":  # the library sees the number that the ONNX input can hold
                out.append(np.array(v, dtype=np.float64).astype(np.float32).astype(np.float64))
            else:
                out.append(np.array(v, dtype=NUMPY_TYPES[rule["type"]]))
        return out

    def assemble(self, arrays):
        # texts as plain objects: the encoders then see str, and never a missing value
        return pd.DataFrame({c: pd.Series(a, dtype=a.dtype) for c, a in zip(self.columns, arrays)})

    def feeds(self, rows):
        return {c: a.astype(NUMPY_TYPES[r["type"]]).reshape(-1, 1)
                for (c, r), a in zip(self.rules.items(), self.arrays(rows))}

    def types(self, batch=None):
        return [(c, SKL_TYPES[r["type"]]([batch, 1])) for c, r in self.rules.items()]

    def register(self):
        rules = {c: {k: "nan" if isinstance(v, float) and np.isnan(v) else v for k, v in r.items()}
                 for c, r in self.rules.items()}
        return {"columns": self.columns, "inputs": rules}
