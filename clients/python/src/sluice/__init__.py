"""Registers models trained in Python with Sluice, the bulk credit-scoring engine.

Importing this package loads only the standard library. `register` loads pandas and the model's libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ._card import ReportCard
from ._errors import CannotRegister, Problem, RegistrationError

__all__ = ["CannotRegister", "Problem", "RegistrationError", "ReportCard", "register"]
__version__ = "0.3.0"


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
