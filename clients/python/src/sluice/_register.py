"""Registers a fitted model: exports it, writes the files of the registration and runs `sluice model add`."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ._card import ReportCard
from ._command import add_model, find_command
from ._errors import CannotRegister, Problem, RegistrationError, first_line

# ONNX Runtime, which the export imports later, would send names and hashes of models to its manufacturer.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

#: Rows of the background sample.
BACKGROUND_ROWS = 100


def register(
    model: Any,
    X: Any,
    y: Any,
    id: str = "credit",
    *,
    registry: str | None = None,
    alias: str | None = None,
    outcome: str | None = None,
    positive_class: Any = None,
    booleans: Sequence[str] = (),
    command: str | Sequence[str] | None = None,
    dry_run: bool = False,
    folder: str | PathLike[str] | None = None,
    background: Any = None,
    policy: str | PathLike[str] | None = None,
    description: str | None = None,
    force: str | None = None,
    tolerance: float = 1e-6,
    arguments: Sequence[str] = (),
    timeout: float = 600,
) -> ReportCard:
    """See `sluice.register`."""
    frame, truth, column = inputs_of(X, y, outcome)
    export = export_of(model, frame, tolerance, frozenset(booleans))
    chosen = class_named(export.classes, positive_class)
    check_background(background, export.columns)
    check_outcome(export, truth, column)
    kept = folder is not None
    target = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="sluice-register-"))
    try:
        target.mkdir(parents=True, exist_ok=True)
        words = write_files(target, export, frame, truth, column, background, chosen)
        words += ["--id", id, "--outcome", column, "--tolerance", repr(tolerance)]
        words += [
            "--task",
            "regression" if export.classes is None else "binary" if len(export.classes) == 2 else "multiclass",
        ]
        given = {
            "--registry": registry,
            "--alias": alias,
            "--positive-class": chosen,
            "--policy": policy,
            "--description": description,
            "--force": force,
        }
        for flag, value in given.items():
            if value is not None:
                words += [flag, str(value)]
        if dry_run:
            words.append("--dry-run")
        answer, text = add_model(find_command(command), [*words, *arguments], timeout)
        check_accepted(answer)
    finally:
        if not kept:
            shutil.rmtree(target, ignore_errors=True)
    unused = [str(c) for c in frame.columns if c not in export.columns]
    return ReportCard(answer, text, unused)


def check_accepted(answer: dict[str, Any]) -> None:
    """Raises RegistrationError if the command rejects applications that the model and the encoding accept."""
    rejected = (answer["report"]["selfTest"] or {}).get("rejected", 0)
    if rejected > 0:
        raise RegistrationError(
            "self_test_rejected",
            f"do not use {answer['model']}: it rejects {rejected} applications that the model accepts. "
            "Compare the columns of its model.yaml with the frame",
        )


def inputs_of(X: Any, y: Any, outcome: str | None) -> tuple[Any, Any, str]:
    """The frame, the outcome and the name of the outcome. Raises CannotRegister."""
    try:
        import pandas as pd
    except ImportError as error:
        raise CannotRegister([Problem("pandas", "it is not installed", "pip install pandas")]) from error
    if not isinstance(X, pd.DataFrame):
        raise CannotRegister([Problem("the frame", f"it is a {type(X).__name__}", "Pass the pandas DataFrame with the named columns of the applications.")])  # fmt: skip
    problems = []
    odd = [c for c in X.columns if not isinstance(c, str)]
    if odd:
        problems.append(
            Problem("the frame", f"{len(odd)} column names are not texts", "Name the columns before fitting.")
        )
    if "*" in X.columns:
        problems.append(Problem("column *", "its name means all columns in an encoding", "Rename it before fitting."))
    twice = X.columns[X.columns.duplicated()].unique().tolist()
    if twice:
        problems.append(Problem("the frame", f"it has columns of the same name: {', '.join(map(str, twice))}", "Rename them before fitting."))  # fmt: skip
    if len(X) == 0:
        problems.append(Problem("the frame", "it has no rows", "Pass the frame that was passed to fit."))
    truth = one_column(y)
    if truth is None:
        problems.append(Problem("the outcome", "it is not a single column", "Pass the y that was passed to fit; register one model per outcome."))  # fmt: skip
    elif len(truth) != len(X):
        problems.append(Problem("the outcome", f"it has {len(truth)} values for {len(X)} rows", "Pass the y that was passed to fit."))  # fmt: skip
    elif truth.isna().any():
        problems.append(Problem("the outcome", "it has missing values", "Pass the rows that were used for fitting."))
    if problems or truth is None:
        raise CannotRegister(problems)
    if truth.dtype.kind == "b" or {type(v) for v in truth.tolist()} <= {bool, np.bool_}:
        # The classes of model files are 0 and 1.
        truth = truth.astype(int)
    name = outcome or (y.name if isinstance(getattr(y, "name", None), str) else None) or "ok"
    return X, truth, name


def one_column(y: Any) -> Any:
    """The outcome as a Series; None if it has another shape."""
    import pandas as pd

    try:
        values = np.asarray(y)
    except ValueError:
        return None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.reshape(-1)
    return pd.Series(values) if values.ndim == 1 else None


def export_of(model: Any, frame: Any, tolerance: float, flags: frozenset[str]) -> Any:
    """Exports the model. Raises CannotRegister, also for errors of the libraries that no check foresees."""
    try:
        return export_by_library(model, frame, tolerance, flags)
    except CannotRegister:
        raise
    except Exception as error:
        raise CannotRegister([Problem(f"the model ({type(model).__name__})", f"exporting it failed with {type(error).__name__}: {first_line(error)}", "Pass the fitted model and the frame that was passed to fit.")]) from error  # fmt: skip


def export_by_library(model: Any, frame: Any, tolerance: float, flags: frozenset[str]) -> Any:
    """Exports the model with the code for its library. Raises CannotRegister."""
    from ._native import export_native, library_of

    library = library_of(model)
    if library is not None:
        return export_native(model, library, frame, tolerance, flags)
    if not hasattr(model, "predict") and not hasattr(model, "best_estimator_"):
        raise CannotRegister([Problem("the model", f"a {type(model).__name__} has no predict method", "Pass a fitted estimator of scikit-learn, LightGBM, XGBoost or CatBoost.")])  # fmt: skip
    lacking = [name for name in ("sklearn", "skl2onnx", "onnxruntime") if not installed(name)]
    if lacking:
        raise CannotRegister(
            [Problem(name, "it is not installed", "pip install 'sluice-client[sklearn]'") for name in lacking]
        )
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    from ._estimator import unwrapped
    from ._export import export_sklearn

    inner = unwrapped(model)
    try:
        check_is_fitted(inner)
    except TypeError as error:
        if isinstance(inner, type):
            raise CannotRegister([Problem("the model", "it is a class", "Call it, fit the result and pass it.")]) from error  # fmt: skip
        raise CannotRegister([Problem("the model", f"{type(inner).__module__}.{type(inner).__name__} is not an estimator of scikit-learn", "Use an estimator of scikit-learn, LightGBM, XGBoost or CatBoost, or export the model to ONNX yourself and run sluice model add.")]) from error  # fmt: skip
    except NotFittedError as error:
        raise CannotRegister([Problem("the model", "it is not fitted", "Call fit first.")]) from error
    library = library_of(inner)
    if library is not None:
        return export_native(inner, library, frame, tolerance, flags)
    return export_sklearn(inner, frame, tolerance, flags)


def installed(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def class_named(classes: Sequence[Any] | None, chosen: Any) -> str | None:
    """The positive class as the graph names it. Raises CannotRegister."""
    if chosen is None:
        return None
    if isinstance(chosen, (bool, np.bool_, float)) and float(chosen).is_integer():
        chosen = int(chosen)
    if classes is None or str(chosen) not in [str(c) for c in classes]:
        raise CannotRegister([Problem("positive_class", f"{chosen} is not a class of the model", f"Use one of {', '.join(map(str, classes or []))}." if classes else "Omit it for a regression.")])  # fmt: skip
    return str(chosen)


def check_outcome(export: Any, truth: Any, column: str) -> None:
    """Raises CannotRegister if the outcome does not fit the model."""
    problems = []
    if column in export.columns:
        problems.append(Problem(f"column {column}", "it is the outcome and a column of the model", "Name the outcome with outcome=, or fit without the column."))  # fmt: skip
    if export.classes is not None:
        known = {str(c) for c in export.classes}
        foreign = sorted({str(v) for v in truth.unique().tolist() if text_of_class(v) not in known})
        if foreign:
            problems.append(Problem("the outcome", f"{len(foreign)} of its values are not classes of the model", f"Pass the y that was passed to fit; the classes are {', '.join(sorted(known))}."))  # fmt: skip
    if problems:
        raise CannotRegister(problems)


def check_background(background: Any, columns: Sequence[str]) -> None:
    """Raises CannotRegister if the background is not a frame with the columns of the model."""
    if background is None:
        return
    names = getattr(background, "columns", None)
    if names is None or not hasattr(background, "to_csv"):
        raise CannotRegister(
            [Problem("background", f"it is a {type(background).__name__}", "Pass a pandas DataFrame.")]
        )
    lost = [name for name in columns if name not in names]
    if lost:
        raise CannotRegister([Problem("background", f"it lacks columns of the model: {', '.join(lost)}", "Pass rows with the columns of the frame.")])  # fmt: skip


def text_of_class(value: Any) -> str:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def write_files(
    folder: Path, export: Any, frame: Any, truth: Any, outcome: str, background: Any, positive: str | None
) -> list[str]:
    """Writes the files of the registration. Returns the arguments that name them."""
    from ._probes import sample_of

    model = folder / export.file
    model.write_bytes(export.content)
    training = folder / "training.csv"
    table = export.files(frame)
    table[outcome] = truth.to_numpy()
    table.to_csv(training, index=False)
    encoding = folder / "encoding.json"
    encoding.write_text(json.dumps(export.encoding, ensure_ascii=False), encoding="utf-8")
    rows = folder / "expected-rows.csv"
    write_csv(rows, export.columns, export.cells)
    expected = folder / "expected.csv"
    header, scores = expected_columns(export, positive)
    write_csv(expected, header, [[repr(float(v)) for v in row] for row in scores])
    against = folder / "background.csv"
    sample = sample_of(frame, BACKGROUND_ROWS) if background is None else background
    export.files(sample).to_csv(against, index=False)
    return [
        str(model),
        "--training-data", str(training),
        "--encoding", str(encoding),
        "--expected", str(expected),
        "--expected-rows", str(rows),
        "--background", str(against),
        "--delimiter", "comma",
    ]  # fmt: skip


def expected_columns(export: Any, positive: str | None) -> tuple[list[str], Any]:
    """The columns of the expected predictions: of the positive class if it is known, else of every class."""
    if export.classes is None:
        return ["value"], export.scores
    names = [str(c) for c in export.classes]
    known = positive or ("1" if names in (["0", "1"], ["-1", "1"]) else None)
    if len(names) == 2 and known is not None:
        at = names.index(known)
        return ["probability"], export.scores[:, at : at + 1]
    return [f"probability.{name}" for name in names], export.scores


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
