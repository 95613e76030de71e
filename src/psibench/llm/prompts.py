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
from jinja2 import nodes
from jinja2.sandbox import SandboxedEnvironment
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from psibench.errors import InputError
from psibench.llm.examples import KEYS as EXAMPLE_KEYS
from psibench.llm.examples import ExampleError, ReplyExample, read_example
from psibench.llm.request import Message, ResponseSchema
from psibench.reading import parse_yaml, read_text_file, shown

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
            If a variable is missing or not one of the template's, or the template does with a value
            what cannot be done with it.
        """
        missing = [name for name in self.variables if name not in values]
        unknown = [name for name in values if name not in self.variables]
        if missing or unknown:
            raise InputError(
                f"prompt {self.task}: missing {', '.join(missing) or 'none'}, unknown "
                f"{', '.join(unknown) or 'none'}; its variables: {', '.join(self.variables)}"
            )
        safe = {name: self._without_tags(value) for name, value in values.items()}
        messages = []
        for role, template in self._templates:
            try:
                text = template.render(safe).strip()
            except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
                raise InputError(f"prompt {self.task}: message {role}: {error}") from error
            messages.append(Message(role, text))  # type: ignore[arg-type]
        return tuple(messages)


def load_prompt(path: str | Path) -> Prompt:
    """Read and check a template.

    Raises
    ------
    InputError
        If the file is missing, has no header or no message, its header and its text disagree
        about the variables, or its example does not fit its schema.
    """
    text = read_text_file(path, expected="a prompt template").replace("\r\n", "\n")
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
    header = parse_yaml(text, where=f"{path}: header")
    names = set(map(str, header)) if isinstance(header, dict) else set()
    if not names <= _KEYS or not {"task", "variables"} <= names:
        raise InputError(
            f"{path}: header has {', '.join(sorted(names)) or 'no keys'}; needed: task, variables; "
            "allowed: description, response, reply_example, reply_size"
        )
    task, variables, response = header["task"], header["variables"], header.get("response")
    if not isinstance(task, str):
        raise InputError(f"{path}: task is {shown(task)}; expected a name")
    if not isinstance(variables, list) or not all(isinstance(name, str) for name in variables):
        raise InputError(f"{path}: variables is {shown(variables)}; expected a list of names")
    if response is not None:
        try:
            Draft202012Validator.check_schema(response)
        except SchemaError as error:
            raise InputError(f"{path}: response is no JSON schema: {error.message}") from error
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
            parsed = _ENVIRONMENT.parse(text)
            # Not compiled before, which computes what is constant.
            _refuse_programs(parsed, f"{path}: message {role}")
            used |= jinja2.meta.find_undeclared_variables(parsed)
        except (jinja2.TemplateSyntaxError, RecursionError) as error:
            line = getattr(error, "lineno", "?")
            raise InputError(f"{path}: message {role}, line {line}: {error}") from error
    if used != set(variables):
        raise InputError(
            f"{path}: header names the variables {', '.join(sorted(variables)) or 'none'}, the "
            f"messages use {', '.join(sorted(used)) or 'none'}; make them agree"
        )


_FILTERS = frozenset(
    "abs capitalize count default d escape first float int join last length list lower map max min "
    "reject replace reverse round select sort string title tojson trim truncate unique upper "
    "wordcount".split()
)
_EXPRESSIONS = (
    *(nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.CondExpr, nodes.Keyword),
    *(nodes.List, nodes.Tuple, nodes.Concat, nodes.Slice),
)
_ALLOWED = (nodes.Output, nodes.TemplateData, nodes.For, nodes.If, *_EXPRESSIONS)
"""What puts values in, repeats over the items of one and asks about one."""


def _refuse_programs(parsed: nodes.Template, where: str) -> None:
    """Refuse what a template needs not: other files, functions, sums, loops inside loops."""
    for node in parsed.find_all(nodes.Node):
        line = f"{where}, line {node.lineno}"
        if not isinstance(node, _ALLOWED):
            what = type(node).__name__.lower()
            raise InputError(f"{line}: {what} is not allowed; a template has values, if and for")
        if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            raise InputError(
                f"{line}: the filter {node.name} is not allowed; allowed: "
                f"{', '.join(sorted(_FILTERS))}"
            )
        if isinstance(node, nodes.Test) and node.name not in _ENVIRONMENT.tests:
            raise InputError(f"{line}: no test named {node.name!r}")
        if isinstance(node, nodes.For) and (node.recursive or list(node.find_all(nodes.For))):
            raise InputError(f"{line}: a loop inside a loop is not allowed")
