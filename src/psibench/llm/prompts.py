"""Prompt templates: Markdown files with a header, rendered by Jinja.

A template starts with a YAML header between two lines ``---``. It names the task, its variables and
the schema of the reply, or the form of a plain reply: the `text` or the `integer` of the task's
only field. The messages follow, each after a line ``## system``, ``## user`` or ``## assistant``. A
variable is written ``{{ name }}``. Comments (``#`` in the header, ``{# ... #}`` in a message) and
the description are not sent to the model, so that editing them causes no new requests.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from psibench.config.base import Section
from psibench.config.files import validated
from psibench.config.paths import PROMPTS
from psibench.errors import InputError
from psibench.llm.request import Message, Request, ResponseSchema
from psibench.llm.sections import LlmSettings
from psibench.llm.tasks import LlmTask, LlmTaskSection, PromptCopies, Tables, TaskItem
from psibench.llm.templates import TEMPLATE_ERRORS, MessageTemplate, error_text
from psibench.reading import read_text_file

_HEADER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n(.*)\Z", re.DOTALL)
_ROLE = re.compile(r"^## (system|user|assistant)[ \t]*$", re.MULTILINE)
_NOTE = r"\{#(?:(?!#\}).)*#\}"
_COMMENT = re.compile(rf"^[ \t]*{_NOTE}[ \t]*\n|{_NOTE}", re.DOTALL | re.MULTILINE)
"""A comment; one without other text on its line is removed with the line."""
_TAG = re.compile(r"</([A-Za-z][\w-]*)>")
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_Plain = Literal["text", "integer"]
_PLAIN: dict[_Plain, str] = {"text": "string", "integer": "integer"}
"""Form of a plain reply -> type of the field it fills."""


class _Header(Section):
    """The header of a template; the description is for readers."""

    task: str
    variables: list[str]
    response: dict[str, Any] | _Plain
    description: Any = None


@dataclass(frozen=True)
class PromptTemplate:
    """One task's template.

    ``task`` is also the name of the response schema; ``messages`` are (role, template) in order,
    without comments.
    """

    task: str
    variables: tuple[str, ...]
    response: ResponseSchema
    messages: tuple[tuple[str, str], ...]

    @cached_property
    def hash(self) -> str:
        """Hash of everything that decides replies (templates, schema, form), for provenance.

        64 hex digits.
        """
        response, form = self.response.schema, self.response.form
        plain = [] if form == "json" else [form]
        text = json.dumps([self.task, self.messages, response, *plain], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def copies(self) -> "PromptCopies":
        """What replies must not copy: the template's tags, and its text without expressions."""
        return PromptCopies(
            self._tag_names, tuple(_EXPRESSION.sub("\n\n", text) for _, text in self.messages)
        )

    @cached_property
    def _templates(self) -> list[tuple[str, MessageTemplate]]:
        return [(role, MessageTemplate(text)) for role, text in self.messages]

    @cached_property
    def _tag(self) -> re.Pattern[str] | None:
        """Pattern for the beginning of a tag of the template; None if it has no tags."""
        if not self._tag_names:
            return None
        return re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(self._tag_names)})\s*>)", re.IGNORECASE)

    @cached_property
    def _tag_names(self) -> tuple[str, ...]:
        return tuple(sorted({name for _, text in self.messages for name in _TAG.findall(text)}))

    def _without_tags(self, value: Any) -> Any:
        if isinstance(value, str):
            return value if self._tag is None else self._tag.sub(r"<\\", value)
        if isinstance(value, Sequence):
            return [self._without_tags(each) for each in value]
        return value

    def render(self, values: Mapping[str, Any]) -> tuple[Message, ...]:
        r"""Return the messages with values filled in; braces inside a value are not interpreted.

        A value that contains one of the template's tags (a document with ``</document>``) would end
        early for the model, so the tag gets a backslash: ``<\/document>``.

        Raises
        ------
        InputError
            If a variable has no value, or the template cannot process it.
        """
        safe = {name: self._without_tags(value) for name, value in values.items()}
        messages = []
        for role, template in self._templates:
            try:
                text = template.render(safe).strip()
            except TEMPLATE_ERRORS as error:
                raise InputError(
                    f"prompt {self.task}: message {role}: {error_text(error)}"
                ) from error
            messages.append(Message(role, text))  # type: ignore[arg-type]
        return tuple(messages)


def load_prompt(path: str | Path) -> PromptTemplate:
    """Read and check a template.

    Raises
    ------
    InputError
        If the file is missing, has no header or no message, its header and its text have different
        variables, or it sets a plain reply for a task that reads something else.
    """
    text = read_text_file(path, expected="a prompt template").replace("\r\n", "\n")
    match = _HEADER.match(text)
    if not match:
        raise InputError(f"{path}: no header; a prompt starts with YAML between two lines ---")
    header = _read_header(match.group(1), path)
    variables = tuple(header.variables)
    messages = _read_messages(match.group(2), path)
    _check_variables(messages, variables, path)
    task, wanted = header.task, header.response
    if isinstance(wanted, dict):
        return PromptTemplate(task, variables, ResponseSchema(task, wanted), messages)
    return PromptTemplate(task, variables, _plain_response(task, wanted, path), messages)


def _plain_response(task: str, form: "_Plain", path: str | Path) -> ResponseSchema:
    """Return the schema of a plain reply to a task, taken from the shipped template."""
    where, shipped = f"{path}: response: {form}", PROMPTS / f"{task}.md"
    if not shipped.is_file():
        raise InputError(f"{where}: there is no shipped template for task {task!r}; see {PROMPTS}")
    if shipped.samefile(path):
        raise InputError(
            f"{where}: the shipped template must keep the schema that the task reads; put your "
            "text into another file and name it in the task's section (`prompt:`)"
        )
    usual = load_prompt(shipped)
    kinds = {name: inner["type"] for name, inner in usual.response.schema["properties"].items()}
    if list(kinds.values()) != [_PLAIN[form]]:
        fields = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise InputError(
            f"{where}: a plain reply is one {_PLAIN[form]}, but the task {task} reads {fields}; "
            f"copy the response schema from {shipped}"
        )
    return ResponseSchema(task, usual.response.schema, form)


def _read_header(text: str, path: str | Path) -> "_Header":
    from psibench.plain_yaml import parse_yaml

    where = f"{path}: header"
    header = validated(parse_yaml(text, where=where), TypeAdapter(_Header), where)
    if isinstance(header.response, dict):
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        try:
            Draft202012Validator.check_schema(header.response)
        except SchemaError as error:
            raise InputError(f"{path}: response is no JSON schema: {error.message}") from error
    return header


def _read_messages(text: str, path: str | Path) -> tuple[tuple[str, str], ...]:
    before, *split = _ROLE.split(_COMMENT.sub("", text))
    if before.strip() or not split:
        raise InputError(
            f"{path}: found text outside of a message; each message starts with a line ## system, "
            "## user or ## assistant"
        )
    return tuple((role, body.strip()) for role, body in zip(split[::2], split[1::2], strict=True))


def _check_variables(
    messages: tuple[tuple[str, str], ...], variables: tuple[str, ...], path: str | Path
) -> None:
    used: set[str] = set()
    for role, text in messages:
        try:
            used |= MessageTemplate(text).variables
        except TEMPLATE_ERRORS as error:
            line = getattr(error, "lineno", "?")
            raise InputError(f"{path}: message {role}, line {line}: {error_text(error)}") from error
    if used != set(variables):
        raise InputError(
            f"{path}: the header names the variables {', '.join(sorted(variables)) or 'none'}, but "
            f"the messages use {', '.join(sorted(used)) or 'none'}; make them agree"
        )


def task_requests(
    task: LlmTask, section: LlmTaskSection, prompt: PromptTemplate, llm: LlmSettings, tables: Tables
) -> Iterator[tuple[TaskItem, Request]]:
    """Yield the items of a task with their requests, in order.

    ``section`` is the task's section of the benchmark's config, ``prompt`` its template, ``llm``
    the language model that the section names; ``tables`` are the task's inputs for some documents.

    Raises
    ------
    InputError
        If the template is for another task, or has variables that the task does not fill in.
    """
    if prompt.task != task.template:
        raise InputError(
            f"found a prompt of task {prompt.task!r} for task {task.template!r}; the header's key "
            "`task` must name the task that uses the template"
        )
    for item in task.items(tables, section):
        request = Request(
            model=llm.model,
            revision=llm.revision,
            messages=prompt.render(item.values),
            response=replace(prompt.response, limits=item.limits),
            sampling=llm.sampling,
            reply_format=llm.reply_format,
            sample=item.sample,
        )
        yield item, request
