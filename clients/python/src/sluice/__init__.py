"""Client of Sluice, the bulk credit-scoring engine: predictions for frames, and registration of models.

Importing this package loads only the standard library. `Client` loads httpx2 when it is first used, and a frame loads
its own library. `register` loads pandas and the model's libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ._card import ReportCard
from ._errors import CannotRegister, Problem, RegistrationError

if TYPE_CHECKING:
    from ._async_client import AsyncClient
    from ._client import Client
    from ._http_errors import (
        ApiError,
        BadGateway,
        BadRequest,
        ColumnError,
        ColumnNameError,
        ColumnTypeError,
        CommandFailed,
        Conflict,
        ConnectionFailed,
        GatewayTimeout,
        JobFailed,
        Locked,
        NotAuthenticated,
        NotFound,
        NotPermitted,
        RowsRejected,
        ServerFault,
        SluiceError,
        TooLarge,
        TooManyRequests,
        Unavailable,
    )
    from ._local import Local

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadGateway",
    "BadRequest",
    "CannotRegister",
    "Client",
    "ColumnError",
    "ColumnNameError",
    "ColumnTypeError",
    "CommandFailed",
    "Conflict",
    "ConnectionFailed",
    "GatewayTimeout",
    "JobFailed",
    "Local",
    "Locked",
    "NotAuthenticated",
    "NotFound",
    "NotPermitted",
    "Problem",
    "RegistrationError",
    "ReportCard",
    "RowsRejected",
    "ServerFault",
    "SluiceError",
    "TooLarge",
    "TooManyRequests",
    "Unavailable",
    "local",
    "register",
]
__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """Loads a client or an error when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'sluice' has no attribute {name!r}")
    from importlib import import_module

    module = {"Client": "_client", "AsyncClient": "_async_client", "Local": "_local"}.get(name, "_http_errors")
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def local(
    model: str,
    *,
    registry: str | PathLike[str] | None = None,
    command: str | Sequence[str] | None = None,
    timeout: float = 600.0,
) -> Local:
    """Scores frames with the sluice command on this machine, without a service. The methods are those of `Client`.

    - `model`: reference of the default model: `id`, `id:version` or `id@alias`.
    - `registry`: folder or address of the registry. Default: that of the command (`SLUICE_REGISTRY`, or `./models`).
    - `command`: the sluice command, as text or as a list of arguments. Default: `SLUICE_COMMAND`, else `sluice` on the
      path, else `npx sluice`.
    - `timeout`: time limit of one call in seconds. Default: 600.

    Each call starts the command, which takes a second or two. Raises `CommandFailed` instead of `ApiError`.
    """
    from ._local import local as run

    return run(model, registry, command, timeout)


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
    """Registers a fitted model as the next version of `id`, and returns its report card.

    `model`: a fitted scikit-learn estimator or `Pipeline`, or a LightGBM, XGBoost or CatBoost model. `X`: the pandas
    DataFrame it was fitted on, one row per application, with the values before any preprocessing. `y`: the outcome,
    one value per row of `X`. `id`: lowercase letters, digits, dots, dashes and underscores.

    Keyword arguments:

    - `registry`: folder or address of the registry. Default: that of the command (`SLUICE_REGISTRY`, or `./models`).
    - `alias`: alias to point to the new version, such as `"champion"`.
    - `outcome`: name of the outcome column. Default: the name of `y`, else `"ok"`.
    - `positive_class`: the class whose probability is the score. Default: 1, or a class named like a good outcome.
    - `booleans`: columns of `X` with 1 and 0 that files of applications write as true and false.
    - `command`: the sluice command, as text or as a list of arguments. Default: `SLUICE_COMMAND`, else `sluice` on the
      path, else `npx sluice`.
    - `dry_run`: check everything, and register nothing.
    - `folder`: folder for the generated files, which are kept. Default: a temporary folder, which is removed.
    - `background`: DataFrame with the applications against which effects are computed. Default: 100 rows of `X`.
    - `policy`: path of a YAML file with decisions, scorecard and reason codes.
    - `description`: text for model.yaml.
    - `force`: reason for registering a model that the training table contradicts.
    - `tolerance`: largest accepted difference from the predictions of the model, absolute for probabilities, and
      relative for values beyond 1. Default: 1e-6.
    - `arguments`: further arguments of `sluice model add`, such as `["--sign-key", "ann.pem"]`.
    - `timeout`: time limit of the command in seconds. Default: 600.

    Raises `CannotRegister` with every part of the model that cannot be carried over, before any command runs, and
    `RegistrationError` if the command fails or rejects the model.
    """
    from ._register import register as run

    return run(
        model,
        X,
        y,
        id,
        registry=registry,
        alias=alias,
        outcome=outcome,
        positive_class=positive_class,
        booleans=booleans,
        command=command,
        dry_run=dry_run,
        folder=folder,
        background=background,
        policy=policy,
        description=description,
        force=force,
        tolerance=tolerance,
        arguments=arguments,
        timeout=timeout,
    )
