"""Prompt templates: Markdown files with a header, rendered by Jinja.

A template starts with a YAML header between two lines ``---`` that names the task, its variables
and the schema of the reply; or says that the reply is plain: the `text` or the `integer` of the
task's only field. Then follow the messages, each under a line ``## system``, ``## user``
or ``## assistant``. A variable is written ``{{ name }}``. Comments (``#`` in the header,
``{# ... #}`` in a message) and the description never reach the model, so editing one asks nothing
anew.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from psibench.llm.tasks import LlmTask, LlmTaskSection, Tables, TaskItem
from psibench.llm.templates import FAULTS, Template, fault_words
from psibench.reading import read_text_file

_HEADER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*\n(.*)\Z", re.DOTALL)
_ROLE = re.compile(r"^## (system|user|assistant)[ \t]*$", re.MULTILINE)
_NOTE = r"\{#(?:(?!#\}).)*#\}"
_COMMENT = re.compile(rf"^[ \t]*{_NOTE}[ \t]*\n|{_NOTE}", re.DOTALL | re.MULTILINE)
"""A comment; one that stands alone goes with its line."""
_TAG = re.compile(r"</([A-Za-z][\w-]*)>")
_Plain = Literal["text", "integer"]
_PLAIN: dict[_Plain, str] = {"text": "string", "integer": "integer"}
"""What a plain reply may be -> type of the field it fills."""


class _Header(Section):
    """The header of a template; the description is for people."""

    task: str
    variables: list[str]
    response: dict[str, Any] | _Plain
    description: Any = None


@dataclass(frozen=True)
class Prompt:
    """One task's template.

    ``task`` names the response schema, too; ``messages`` are (role, template) in order, without
    comments.
    """

    task: str
    variables: tuple[str, ...]
    response: ResponseSchema
    messages: tuple[tuple[str, str], ...]

    @cached_property
    def hash(self) -> str:
        """Hash of what decides replies (templates, schema, form), for provenance: 64 hex digits."""
        response, form = self.response.schema, self.response.form
        plain = [] if form == "json" else [form]
        text = json.dumps([self.task, self.messages, response, *plain], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _templates(self) -> list[tuple[str, Template]]:
        return [(role, Template(text)) for role, text in self.messages]

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
        r"""Put values in, of those given; braces inside a value stay as they are.

        A tag of the template's own inside a value (a document that says ``</document>``) would end
        the value for the model: it gets a backslash, ``<\/document>``.

        Raises
        ------
        InputError
            If a variable has no value, or the template does with one what cannot be done with it.
        """
        safe = {name: self._without_tags(value) for name, value in values.items()}
        messages = []
        for role, template in self._templates:
            try:
                text = template.render(safe).strip()
            except FAULTS as error:
                raise InputError(
                    f"prompt {self.task}: message {role}: {fault_words(error)}"
                ) from error
            messages.append(Message(role, text))  # type: ignore[arg-type]
        return tuple(messages)


def load_prompt(path: str | Path) -> Prompt:
    """Read and check a template.

    Raises
    ------
    InputError
        If the file is missing, has no header or no message, its header and its text disagree
        about the variables, or it wants a plain reply to a task that reads something else.
    """
    text = read_text_file(path, expected="a prompt template").replace("\r\n", "\n")
    found = _HEADER.match(text)
    if not found:
        raise InputError(f"{path}: no header; a prompt starts with YAML between two lines ---")
    header = _read_header(found.group(1), path)
    variables = tuple(header.variables)
    messages = _read_messages(found.group(2), path)
    _check_variables(messages, variables, path)
    task, wanted = header.task, header.response
    if isinstance(wanted, dict):
        return Prompt(task, variables, ResponseSchema(task, wanted), messages)
    return Prompt(task, variables, _plain_response(task, wanted, path), messages)


def _plain_response(task: str, form: "_Plain", path: str | Path) -> ResponseSchema:
    """Return what a plain reply to a task has to hold, as the shipped template says."""
    where, shipped = f"{path}: response: {form}", PROMPTS / f"{task}.md"
    if not shipped.is_file():
        raise InputError(f"{where}: {task!r} is no task of the shipped templates; see {PROMPTS}")
    if shipped.samefile(path):
        raise InputError(
            f"{where}: the shipped template has to hold the schema that the task reads; put your "
            "text into a file of your own and name it in the task's section (`prompt:`)"
        )
    usual = load_prompt(shipped)
    kinds = {name: inner["type"] for name, inner in usual.response.schema["properties"].items()}
    if list(kinds.values()) != [_PLAIN[form]]:
        fields = ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
        raise InputError(
            f"{where}: a plain reply is one {_PLAIN[form]}, and the task {task} reads {fields}; "
            f"copy the response schema of {shipped}"
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
            used |= Template(text).variables
        except FAULTS as error:
            line = getattr(error, "lineno", "?")
            raise InputError(
                f"{path}: message {role}, line {line}: {fault_words(error)}"
            ) from error
    if used != set(variables):
        raise InputError(
            f"{path}: header names the variables {', '.join(sorted(variables)) or 'none'}, the "
            f"messages use {', '.join(sorted(used)) or 'none'}; make them agree"
        )


def requests_of(
    task: LlmTask, section: LlmTaskSection, prompt: Prompt, llm: LlmSettings, tables: Tables
) -> Iterator[tuple[TaskItem, Request]]:
    """Yield every item of a task with the request that asks about it, one by one, in order.

    ``section`` is the task's part of the benchmark's config, ``prompt`` its template, ``llm`` the
    language model that the section names; ``tables`` are those the task reads, of some documents.

    Raises
    ------
    InputError
        If the template is of another task, or has variables that the task does not fill in.
    """
    if prompt.task != task.template:
        raise InputError(
            f"prompt of task {prompt.task!r} given for task {task.template!r}; the header's key "
            "task has to name the task the template is used for"
        )
    for item in task.items(tables, section):
        request = Request(
            model=llm.model,
            revision=llm.revision,
            messages=prompt.render(item.values),
            response=prompt.response,
            sampling=llm.sampling,
            reply_format=llm.reply_format,
            sample=item.sample,
        )
        yield item, request
