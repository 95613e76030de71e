"""Prompt templates: Markdown files with a header, rendered by Jinja.

A template starts with a YAML header between two lines ``---`` that names the task, its variables
and the schema of the reply. Then follow the messages, each under a line ``## system``, ``## user``
or ``## assistant``. A variable is written ``{{ name }}``. Comments (``#`` in the header,
``{# ... #}`` in a message), the description and the example of a reply (see `examples`) never
reach the model, so editing one asks nothing anew.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import yaml
from jinja2.sandbox import SandboxedEnvironment

from psibench.errors import InputError, MissingError
from psibench.llm.examples import KEYS as EXAMPLE_KEYS
from psibench.llm.examples import ExampleError, ReplyExample, read_example
from psibench.llm.request import Message, ResponseSchema

_HEADER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n(.*)\Z", re.DOTALL)
_ROLE = re.compile(r"^## (system|user|assistant)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*\{#.*?#\}[ \t]*\n|\{#.*?#\}", re.DOTALL | re.MULTILINE)
"""A comment; one that stands alone goes with its line."""
_TAG = re.compile(r"</([A-Za-z][\w-]*)>")
_KEYS = {"task", "description", "variables", "response", *EXAMPLE_KEYS}
_ENVIRONMENT = SandboxedEnvironment(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True)
class Prompt:
    """One task's template.

    Attributes
    ----------
    task
        Name of the task and of its response schema.
    variables
        What `render` needs, all of it and nothing else.
    response
        JSON schema of the reply; None for free text.
    messages
        (role, template) in order, without comments.
    example
        A typical reply, for estimates; None if the header gives none.
    description
        One line for people.
    """

    task: str
    variables: tuple[str, ...]
    response: ResponseSchema | None
    messages: tuple[tuple[str, str], ...]
    example: ReplyExample | None = None
    description: str = ""

    @cached_property
    def hash(self) -> str:
        """Hash of what reaches the model (templates and schema), for provenance: 64 hex digits."""
        schema = None if self.response is None else self.response.schema
        text = json.dumps([self.task, self.messages, schema], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _templates(self) -> list[tuple[str, jinja2.Template]]:
        return [(role, _ENVIRONMENT.from_string(text)) for role, text in self.messages]

    @cached_property
    def _tag(self) -> re.Pattern[str] | None:
        """Match the beginning of a tag of the template, opening or closing; None without tags."""
        names = sorted({name for _, text in self.messages for name in _TAG.findall(text)})
        if not names:
            return None
        return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(names)})\s*>)", re.IGNORECASE)

    def _without_tags(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if self._tag is None else self._tag.sub(r"<\\", value)
        if isinstance(value, Sequence):
            return [self._without_tags(one) for one in value]
        return value

    def render(self, values: Mapping[str, Any]) -> tuple[Message, ...]:
        r"""Put values in; braces inside a value stay as they are.

        A tag of the template's own inside a value (a document that says ``</document>``) would end
        the value for the model: it gets a backslash, ``<\/document>``.

        Raises
        ------
        InputError
            If a variable is missing or not one of the template's.
        """
        missing = [name for name in self.variables if name not in values]
        unknown = [name for name in values if name not in self.variables]
        if missing or unknown:
            raise InputError(
                f"prompt {self.task}: missing {', '.join(missing) or 'none'}, unknown "
                f"{', '.join(unknown) or 'none'}; its variables: {', '.join(self.variables)}"
            )
        safe = {name: self._without_tags(value) for name, value in values.items()}
        rendered = ((role, template.render(safe)) for role, template in self._templates)
        return tuple(Message(role, text.strip()) for role, text in rendered)  # type: ignore[arg-type]


def load_prompt(path: str | Path) -> Prompt:
    """Read and check a template.

    Raises
    ------
    InputError
        If the file is missing, has no header or no message, its header and its text disagree
        about the variables, or its example does not fit its schema.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").replace("\r\n", "\n")
    except FileNotFoundError as error:
        raise MissingError(f"{path}: {error.strerror}; expected a prompt template") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; expected a prompt template") from error
    found = _HEADER.match(text)
    if not found:
        raise InputError(f"{path}: no header; a prompt starts with YAML between two lines ---")
    header = _read_header(found.group(1), path)
    variables = tuple(header["variables"])
    messages = _read_messages(found.group(2), path)
    _check_variables(messages, variables, path)
    task, schema = str(header["task"]), header.get("response")
    response = None if schema is None else ResponseSchema(task, schema)
    try:
        example = read_example(header, response, variables)
    except ExampleError as error:
        raise InputError(f"{path}: {error}") from error
    description = str(header.get("description") or "")
    return Prompt(task, variables, response, messages, example, description)


def _read_header(text: str, path: str | Path) -> dict[str, Any]:
    try:
        header = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: header is not YAML: {error}") from error
    names = set(header) if isinstance(header, dict) else set()
    if not names <= _KEYS or not {"task", "variables"} <= names:
        raise InputError(
            f"{path}: header has {', '.join(sorted(names)) or 'no keys'}; needed: task, variables; "
            "allowed: description, response, reply_example, reply_size"
        )
    return dict(header)


def _read_messages(text: str, path: str | Path) -> tuple[tuple[str, str], ...]:
    before, *parts = _ROLE.split(_COMMENT.sub("", text))
    if before.strip() or not parts:
        raise InputError(
            f"{path}: text outside a message; each message stands under ## system, ## user or "
            "## assistant"
        )
    return tuple((role, body.strip()) for role, body in zip(parts[::2], parts[1::2], strict=True))


def _check_variables(
    messages: tuple[tuple[str, str], ...], variables: tuple[str, ...], path: str | Path
) -> None:
    used: set[str] = set()
    for role, text in messages:
        try:
            used |= jinja2.meta.find_undeclared_variables(_ENVIRONMENT.parse(text))
        except jinja2.TemplateSyntaxError as error:
            raise InputError(f"{path}: message {role}, line {error.lineno}: {error}") from error
    if used != set(variables):
        raise InputError(
            f"{path}: header names the variables {', '.join(sorted(variables)) or 'none'}, the "
            f"messages use {', '.join(sorted(used)) or 'none'}; make them agree"
        )
