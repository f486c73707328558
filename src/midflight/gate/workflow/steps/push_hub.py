"""Uploads the checkpoint's model files to a repository of the Hugging Face Hub, through `huggingface_hub`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from midflight.credentials import resolve
from midflight.errors import missing_extra
from midflight.gate.workflow.artifact import TRAINING_STATE
from midflight.gate.workflow.call import call_function
from midflight.gate.workflow.steps.base import Note, Step, StepContext


class PushHubStep(Step):
    """One commit with all files; the Hub keeps the earlier ones. Files that are there already make no new commit.

    Attributes:
        repo: ``owner/name``; made if it does not exist.
        revision: Branch.
        private: Whether a repository that is made is private.
        token: Access token: ``${env:NAME}``.
        endpoint: URL of the Hub, if it is another one.
    """

    kind: Literal["push_hub"] = "push_hub"
    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str = "main"
    private: bool = True
    token: str = Field(default="${env:HF_TOKEN}", pattern=r"^\$\{env:\w+\}$")
    endpoint: str | None = None
    timeout_s: float = Field(default=3_600.0, gt=0, le=30 * 86_400)
    idempotent: bool = True

    needs_checkpoint: ClassVar[bool] = True

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Uploads, in a process of its own that the time limit can kill."""
        arguments = self.model_dump(include={"repo", "revision", "private", "endpoint", "token"})
        return call_function(f"{__name__}:upload", context, arguments, self.timeout_s)


def upload(
    context: StepContext, repo: str, revision: str, private: bool, endpoint: str | None, token: str
) -> dict[str, Any]:
    """Makes the repository and the branch where they are missing, and the commit.

    Raises:
        MissingExtraError: If `huggingface_hub` is not installed.
    """
    if endpoint is not None:
        os.environ["HF_ENDPOINT"] = endpoint  # by which the library knows its own URLs; this process is ours alone
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise missing_extra("a step of kind 'push_hub'", "hub", error) from None
    checkpoint, hub = context.needed_checkpoint(), HfApi(token=resolve(token))
    hub.create_repo(repo, private=private, exist_ok=True)
    if revision != "main":
        hub.create_branch(repo, branch=revision, exist_ok=True)
    message = f"Midflight {context.execution}: {checkpoint.name}, weights {context.weights[:16]}"
    if checkpoint.is_file():
        commit = hub.upload_file(
            path_or_fileobj=checkpoint,
            path_in_repo=checkpoint.name,
            repo_id=repo,
            revision=revision,
            commit_message=message,
        )
    else:
        commit = hub.upload_folder(
            repo_id=repo,
            folder_path=checkpoint,
            revision=revision,
            commit_message=message,
            ignore_patterns=[*TRAINING_STATE, *(f"{pattern}/**" for pattern in TRAINING_STATE)],
        )
    return {"repo": repo, "revision": revision, "commit": commit.oid}
