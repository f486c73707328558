"""Registers the checkpoint as a version of a model in an MLflow registry, and gives it an alias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from midflight.errors import missing_extra
from midflight.gate.workflow.call import call_function
from midflight.gate.workflow.steps.base import Note, Step, StepContext


class MlflowStep(Step):
    """A version whose source is the checkpoint's path, with verdict and hash as tags.

    Attributes:
        model: Name in the registry; made if it does not exist.
        alias: Alias that is moved to the new version, e.g. ``production``; empty = none.
        registry: URI of the registry; None = MLflow's own default ($MLFLOW_REGISTRY_URI, $MLFLOW_TRACKING_URI).
    """

    kind: Literal["mlflow"] = "mlflow"
    model: str = Field(pattern=r"^[^'\"/:]+$")
    alias: str = ""
    registry: str | None = None
    idempotent: bool = True

    needs_checkpoint: ClassVar[bool] = True

    @property
    def can_undo(self) -> bool:
        """The alias goes back; the version stays, as every version does."""
        return bool(self.alias)

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Registers, in a process of its own; a version that this step has made before is found by its tag."""
        arguments = self.model_dump(include={"model", "alias", "registry"})
        return call_function(f"{__name__}:register", context, arguments, self.timeout_s)

    def undo(self, context: StepContext, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Gives the alias back to the version that had it before."""
        arguments = {**self.model_dump(include={"model", "alias", "registry"}), "previous": result["previous"]}
        return call_function(f"{__name__}:restore", context, arguments, self.timeout_s)


def register(context: StepContext, model: str, alias: str, registry: str | None) -> dict[str, Any]:
    """Makes the version and moves the alias.

    Raises:
        MissingExtraError: If `mlflow` is not installed.
    """
    client = _client(registry)
    verdict = context.verdict
    tags = {
        "midflight.execution": context.key,
        "midflight.weights": context.weights,
        "midflight.verdict": verdict.id if verdict else "",
        "midflight.outcome": verdict.outcome if verdict else "",
    }
    if not client.search_registered_models(f"name = '{model}'"):
        client.create_registered_model(model)
    versions = client.search_model_versions(f"name = '{model}'")
    made = next((version for version in versions if version.tags.get("midflight.execution") == context.key), None)
    if made is None:
        source = context.needed_checkpoint().resolve().as_uri()
        made = client.create_model_version(model, source, tags=tags | {_PREVIOUS: _holder(client, model, alias)})
    previous = client.get_model_version(model, made.version).tags.get(_PREVIOUS) or None
    if alias:
        client.set_registered_model_alias(model, alias, made.version)
    return {"model": model, "version": str(made.version), "alias": alias, "previous": previous}


_PREVIOUS = "midflight.previous"
"""Tag of a version: the one that had the alias before it."""


def restore(context: StepContext, model: str, alias: str, registry: str | None, previous: str | None) -> dict[str, Any]:
    """Moves the alias back."""
    client = _client(registry)
    if previous is None:
        client.delete_registered_model_alias(model, alias)
    else:
        client.set_registered_model_alias(model, alias, previous)
    return {"alias": alias, "version": previous}


def _client(registry: str | None) -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        raise missing_extra("a step of kind 'mlflow'", "mlflow", error) from None
    return MlflowClient(tracking_uri=registry, registry_uri=registry)


def _holder(client: Any, model: str, alias: str) -> str:
    """The version that has an alias now; empty if none has."""
    return str(client.get_registered_model(model).aliases.get(alias, ""))
