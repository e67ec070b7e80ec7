"""The report card of a registration."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any


class ReportCard:
    """What `sluice model add` found, assumed and checked.

    `ref`: the registered version, such as `credit:1`. `registered`: False after a dry run. `text`: the report as
    Markdown. `data`: the content of report.json. `manifest`: the content of model.yaml. `unused`: columns of the frame
    that the model does not use.
    """

    def __init__(self, answer: Mapping[str, Any], text: str, unused: list[str]) -> None:
        self.ref: str = answer["model"]
        self.registered: bool = answer["registered"]
        self.data: dict[str, Any] = answer["report"]
        self.manifest: dict[str, Any] = answer["manifest"]
        self.text = text
        self.unused = unused

    @property
    def warnings(self) -> list[str]:
        """The findings to review before the model is used."""
        return [
            f"{finding['column']}: {finding['text']}" if "column" in finding else finding["text"]
            for finding in self.data["findings"]
            if finding["level"] == "warning"
        ]

    def __repr__(self) -> str:
        test = self.data.get("selfTest") or {}
        state = "registered" if self.registered else "not registered (dry run)"
        agreed = f", {test['rows']} rows agree within {test['largest']:.1e}" if test.get("passed") else ""
        return f"<ReportCard {self.ref}: {state}{agreed}, {len(self.warnings)} warnings>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"
