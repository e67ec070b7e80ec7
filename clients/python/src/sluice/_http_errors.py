"""Errors of predictions: one class per HTTP status, columns that do not fit the model, and rejected rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def _revive(cls: type[SluiceError], message: str, state: dict[str, Any]) -> SluiceError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class SluiceError(Exception):
    """Base of all errors of predictions. `code` is a code of the error catalogue (docs/errors.md)."""

    code: str = "failed"

    def __reduce__(self) -> Any:
        return _revive, (type(self), str(self), self.__dict__)


class ConnectionFailed(SluiceError):
    """The service did not answer: no connection, no certificate, no data within the timeout, or a cut response."""

    def __init__(self, message: str, code: str = "connection_failed") -> None:
        super().__init__(message)
        self.code = code


class ApiError(SluiceError):
    """The service rejected a request.

    `status`: HTTP status. `code`: code of the error (docs/errors.md). `request_id`: id of the request in the server's
    log, or None. `details`: one dictionary per fault, with `code`, `message`, and where known `row` (from 1) and
    `column`. `retry_after`: seconds after which a retry can succeed, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        request_id: str | None = None,
        details: Sequence[Mapping[str, Any]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.request_id = request_id
        self.details = [dict(detail) for detail in details]
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request, its body or a limit."""


class NotAuthenticated(ApiError):
    """401: the API key is missing, unknown or expired."""


class NotPermitted(ApiError):
    """403: the API key does not permit this operation or model."""


class NotFound(ApiError):
    """404: the model, version, alias or job does not exist."""


class Conflict(ApiError):
    """409: the state of the resource does not permit the operation."""


class TooLarge(ApiError):
    """413: the upload is larger than the limit of the server."""


class Locked(ApiError):
    """423: another request is writing to the upload."""


class TooManyRequests(ApiError):
    """429: a proxy or the server asks for fewer requests."""


class ServerFault(ApiError):
    """500 and other statuses from 500: an unexpected error, logged by the server under `request_id`."""


class BadGateway(ServerFault):
    """502: a proxy did not get a valid answer from the service."""


class Unavailable(ServerFault):
    """503: the service is overloaded, starting or stopping, or a dependency is unavailable."""


class GatewayTimeout(ServerFault):
    """504: a proxy waited too long for the service."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAuthenticated,
    403: NotPermitted,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    423: Locked,
    429: TooManyRequests,
    500: ServerFault,
    502: BadGateway,
    503: Unavailable,
    504: GatewayTimeout,
}


def error_of(status: int, **fields: Any) -> ApiError:
    """The error of a status, of the most specific class."""
    cls = BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    return cls(fields.pop("message"), status=status, **fields)


class ColumnError(SluiceError):
    """The columns of the frame do not fit the model. Nothing was sent. `columns`: their names."""

    code = "header_mismatch"

    def __init__(self, message: str, columns: Sequence[str]) -> None:
        super().__init__(message)
        self.columns = list(columns)


class ColumnNameError(ColumnError, ValueError):
    """The frame lacks columns of the model, or has others. `missing` and `unexpected` list them."""

    def __init__(self, message: str, missing: Sequence[str] = (), unexpected: Sequence[str] = ()) -> None:
        super().__init__(message, [*missing, *unexpected])
        self.missing = list(missing)
        self.unexpected = list(unexpected)


class ColumnTypeError(ColumnError, TypeError):
    """Columns have types in which values of the model may be lost, such as numbers for a category with `0230`.

    The message ends with the line of code that fixes it; `fix` has this line alone.
    """

    code = "bad_type"

    def __init__(self, message: str, columns: Sequence[str], fix: str) -> None:
        super().__init__(message, columns)
        self.fix = fix


class RowsRejected(SluiceError):
    """Rows were rejected, and `on_invalid="raise"` was set.

    `rejected`: number of rejected rows. `details`: the first 100, with `row` (from 0), `code` and `column`. `result`:
    the frame that `on_invalid="report"` returns.
    """

    code = "invalid_row"

    def __init__(self, message: str, rejected: int, details: Sequence[Mapping[str, Any]], result: Any) -> None:
        super().__init__(message)
        self.rejected = rejected
        self.details = [dict(detail) for detail in details]
        self.result = result


class JobFailed(SluiceError):
    """A job ended without a result. `code`: code of its error; `job`: its id."""

    def __init__(self, message: str, code: str, job: str) -> None:
        super().__init__(message)
        self.code = code
        self.job = job


class CommandFailed(SluiceError):
    """The sluice command of `sluice.local` failed. `code`: code of its error, or `command_not_found`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code
