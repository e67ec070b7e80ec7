"""The operations of every client: predict, explain, models and files, as flows that a client runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._exchange import Flow
from ._fit import fit
from ._frames import Fault, Frame, frame_of
from ._http_errors import ApiError, RowsRejected

MOST_DETAILS = 100


@dataclass
class Request:
    """Rows to score. `names`: the columns that are sent; `kept`: those that are only copied to the result."""

    frame: Frame
    model: str
    names: list[str]
    kept: list[str]
    explain: bool = False
    top: int | None = None


class Operations:
    """Predictions, models and files. `Client` answers directly; `AsyncClient` returns awaitables."""

    def _run(self, flow: Flow[Any]) -> Any:
        raise NotImplementedError

    def _columns(self, ref: str) -> Flow[list[dict[str, Any]] | None]:
        raise NotImplementedError

    def _describe(self, ref: str, *, fresh: bool = False) -> Flow[dict[str, Any]]:
        raise NotImplementedError

    def _list(self) -> Flow[list[dict[str, Any]]]:
        raise NotImplementedError

    def _drift(self, ref: str, window: str) -> Flow[dict[str, Any]]:
        raise NotImplementedError

    def _score(self, request: Request) -> Flow[Any]:
        raise NotImplementedError

    def _score_file(self, source: str, target: str, model: str, options: dict[str, Any]) -> Flow[dict[str, Any]]:
        raise NotImplementedError

    def _model(self, model: str | None) -> str:
        if model is None:
            raise TypeError('model is missing: pass model="credit@champion"')
        return model

    def predict(
        self,
        frame: Any,
        model: str | None = None,
        *,
        passthrough: Sequence[str] | str = (),
        on_invalid: str = "report",
    ) -> Any:
        """Scores a frame. Returns the same kind of frame, with one row per row of `frame`, in its order and index.

        - `frame`: a DataFrame of pandas or polars, a Table, RecordBatch or RecordBatchReader of pyarrow, a relation of
          DuckDB, any object with `__arrow_c_stream__`, or a list of dictionaries. Shape: rows × columns of the model.
          Rows are sent in batches; the frame is never copied as a whole.
        - `model`: reference `id`, `id:version` or `id@alias`.
        - `passthrough`: columns of the frame outside the model to copy to the result, such as an id; `"*"` for all.
        - `on_invalid`: `"report"` returns rejected rows with `error_code`, or `"raise"` raises `RowsRejected`.

        Columns of the result: the copied columns; `prediction` (true or false, or the class) and `probability` (of the
        positive class, 0 to 1) or `value` of a regression; `points` and `decision` if the model has them; and
        `error_code`, `error_column` and `error_message`, which are empty for scored rows.

        Raises `ColumnTypeError` and `ColumnNameError` before anything is sent, `ApiError` with a subclass for each
        status, and `ConnectionFailed`.
        """
        return self._run(self._predict(frame, self._model(model), passthrough, on_invalid, False, None))

    def explain(
        self,
        frame: Any,
        model: str | None = None,
        *,
        top: int | None = None,
        passthrough: Sequence[str] | str = (),
        on_invalid: str = "report",
    ) -> Any:
        """Scores a frame and explains each prediction. Arguments, order and errors are those of `predict`.

        `top`: only the effects of the `top` most important columns of each row; the others are empty.

        Further columns: `base`, and one `effect.<column>` per column of the model, in the space of the model (log odds
        for classifiers). Base and effects add up to the score. `reasons`: reason codes, separated by semicolons. For a
        list of dictionaries: `base`, `effects` (a list with `column`, `value` and `effect`, largest first) and
        `reasons` (a list with `code`, `column` and `text`).
        """
        return self._run(self._predict(frame, self._model(model), passthrough, on_invalid, True, top))

    def predict_file(
        self,
        src: str | os.PathLike[str],
        dst: str | os.PathLike[str],
        model: str | None = None,
        *,
        explain: bool = False,
        top: int | None = None,
        passthrough: Sequence[str] | str = (),
        progress: bool = True,
    ) -> Any:
        """Scores a file of applications into another file. Returns `{"rows", "scored", "rejected"}`.

        - `src`: a `.csv` (commas), `.tsv`, `.json` or `.ndjson` file of any size; `dst`: the new file, in the same
          format. It appears when it is complete.
        - `explain`, `top`, `passthrough`: as above.
        - `progress`: show a progress bar if tqdm is installed.

        The file is sent in parts and continued after connection errors. It becomes a job of the server, which is
        removed once its result is stored. Raises `JobFailed` if no row could be scored, and the errors of `predict`.
        """
        listed = passthrough if isinstance(passthrough, str) else ",".join(passthrough)
        options = {"explain": explain, "top": top, "passthrough": listed, "progress": progress}
        return self._run(self._score_file(os.fspath(src), os.fspath(dst), self._model(model), options))

    @property
    def models(self) -> Models:
        """The models that this key may use: `client.models["credit@champion"].columns`."""
        return Models(self)

    def _predict(
        self,
        frame: Any,
        model: str,
        passthrough: Sequence[str] | str,
        on_invalid: str,
        explain: bool,
        top: int | None,
    ) -> Flow[Any]:
        if on_invalid not in ("report", "raise"):
            raise ValueError('on_invalid must be "report" or "raise"')
        read = frame_of(frame)
        if read.rows == 0 and not read.has_columns:
            return read.result([])
        columns = yield from self._columns(model)
        names, kept = fit(read, columns, passthrough, read.reserved(explain))
        read.keep(kept)
        request = Request(read, model, names, kept, explain, top)
        faults = yield from self._score_or_reject(request)
        result = read.result(kept, faults)
        if on_invalid == "raise":
            count, details = read.rejections(result)
            if count:
                raise RowsRejected(message_of(count, details), count, details, result)
        return result

    def _score_or_reject(self, request: Request) -> Flow[list[Fault] | None]:
        """Scores the rows. Returns the faults of all rows if none could be scored, which the service answers with 400."""
        try:
            yield from self._score(request)
            return None
        except ApiError as error:
            frame, listed = request.frame, rows_of(error)
            if error.code != "nothing_scored" or frame.rows is None or not listed:
                raise
        faults: list[Fault] = []
        step = len(listed)
        if step == frame.rows:
            faults = listed
        else:
            # The error lists only its first rows.
            for start in range(0, frame.rows, step):
                part = frame.slice(start, min(step, frame.rows - start))
                try:
                    yield from self._score(replace(request, frame=part))
                    raise error_of_change()
                except ApiError as error:
                    if error.code != "nothing_scored":
                        raise
                    faults += rows_of(error)
        if len(faults) != frame.rows:
            raise error_of_change()
        # The columns of the result are those of an empty frame.
        empty = frame.slice(0, 0)
        yield from self._score(replace(request, frame=empty))
        frame.adopt(empty)
        return faults


def error_of_change() -> Exception:
    """The error if the rows of two answers to the same rows differ."""
    from ._http_errors import SluiceError

    return SluiceError("the model changed while the frame was scored: call the method again")


def rows_of(error: ApiError) -> list[Fault]:
    """The faults of an error, one per row in order; empty if it has none."""
    found: dict[int, Fault] = {}
    for detail in error.details:
        row = detail.get("row")
        if isinstance(row, int):
            found.setdefault(row, Fault(str(detail.get("code")), detail.get("column"), str(detail.get("message", ""))))
    return [found[row] for row in sorted(found)] if sorted(found) == list(range(1, len(found) + 1)) else []


def message_of(count: int, details: Sequence[dict[str, Any]]) -> str:
    """Lists the first rejected rows."""
    lines = [f"- row {d['row']}: {d['code']}" + (f" in {d['column']}" if d.get("column") else "") for d in details[:5]]
    noun = "row was" if count == 1 else "rows were"
    return f"{count} {noun} rejected:\n" + "\n".join(lines)


class Models:
    """The models of a client, by reference."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def __getitem__(self, ref: str) -> Model:
        return Model(self._operations, ref)

    def list(self) -> Any:
        """Models with their versions, states and aliases, as dictionaries."""
        return self._operations._run(self._operations._list())


class Model:
    """A model by its reference. Each attribute asks the service; with `AsyncClient` it is awaited."""

    def __init__(self, operations: Operations, ref: str) -> None:
        self.ref = ref
        self._operations = operations

    def __repr__(self) -> str:
        return f"Model({self.ref!r})"

    def _part(self, key: str | None) -> Any:
        def flow() -> Flow[Any]:
            described = yield from self._operations._describe(self.ref, fresh=True)
            return described if key is None else described[key]

        return self._operations._run(flow())

    @property
    def description(self) -> Any:
        """All of the below, with id, version, state, task, hashes and aliases, as a dictionary."""
        return self._part(None)

    @property
    def columns(self) -> Any:
        """The columns in order: `name`, `kind` (number, boolean, category, text), `required`, `accepts` (types that
        lose nothing: string, number, boolean), and where the model has them `values` and `range`."""
        return self._part("columns")

    @property
    def sample(self) -> Any:
        """An example application: a dictionary that `predict([sample])` accepts."""
        return self._part("sample")

    @property
    def version(self) -> Any:
        """The version that the reference resolves to."""
        return self._part("version")

    def drift(self, window: str = "hour") -> Any:
        """Distribution of the scores and columns of the rows that this server scored, compared with the training data.

        `window`: `"hour"`, `"day"`, or `"start"` of the server process. Returns a dictionary; `baseline` is False if the model has
        no baseline. `psi` is the population stability index: below 0.1 stable, from 0.2 shifted.
        """
        return self._operations._run(self._operations._drift(self.ref, window))
