"""The language of prompt templates: Jinja without what takes memory or time without bound.

A template is a user's file, and may come with a config of somebody else. It cannot read files or
call Python (Jinja's sandbox). Here it is also bounded in what it makes (`MAX_CHARS` of any text)
and in its loops (`MAX_STEPS` of a message), both when it is read, where Jinja computes what is
constant, and when it is rendered. No limit depends on time: a template works on every machine or
on none.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import jinja2
import jinja2.meta
import jinja2.runtime
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_CHARS = 20_000_000
"""Of a message, and of any text or list on the way to it."""
CHARS_OF_OTHERS = 20
"""That a number or a list counts as."""
MAX_STEPS = 1_000_000
"""Rounds of all loops of a message."""
MAX_BITS = 4096
"""Of a whole number."""
MAX_INDENT = 100

FAULTS = (
    *(jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError),
    *(AttributeError, MemoryError),
)
"""What a template may raise."""

LEFT_OUT = (
    *("attr", "batch", "center", "filesizeformat", "format", "pprint", "random", "slice", "urlize"),
    *("urlencode", "wordwrap", "xmlattr"),
)
"""Filters of Jinja that templates have no use for; some fill up to a width, or draw at random."""
_METHODS = {
    str: (
        *("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize"),
        *("split", "splitlines", "startswith", "endswith", "count"),
    ),
    dict: ("items", "keys", "values", "get"),
    jinja2.runtime.LoopContext: ("cycle", "changed"),
}
"""What can be called."""
_REFUSED = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)
_STEPS: ContextVar[list[int]] = ContextVar("steps")


def fault_words(error: BaseException) -> str:
    """Return what one of `FAULTS` says, without the place that Jinja adds."""
    return str(getattr(error, "message", None) or error) or type(error).__name__


class Template:
    """A text with ``{{ names }}``; ``variables`` are those that it uses.

    Raises
    ------
    FAULTS
        If it is none; with ``lineno`` where Jinja knows it.
    """

    def __init__(self, text: str) -> None:
        tree = _Bounded().visit(_ENVIRONMENT.parse(text))
        self._template = jinja2.Template.from_code(_ENVIRONMENT, _ENVIRONMENT.compile(tree), {})
        self.variables = jinja2.meta.find_undeclared_variables(tree)

    def render(self, values: Mapping[str, Any]) -> str:
        """Put values in.

        Raises
        ------
        FAULTS
            If a value is missing, or something is done with one that cannot be done.
        """
        _STEPS.set([0])
        parts, n_chars = list[str](), 0
        for part in self._template.generate(values):
            n_chars += len(part)
            _refuse_more(n_chars)
            parts.append(part)
        return "".join(parts)


class _Bounded(NodeTransformer):
    """Puts a filter around what a loop goes through, and around what ``~`` joins."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        if node.recursive:
            raise jinja2.TemplateSyntaxError("recursive loops are not supported", node.lineno)
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "each_step")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_filtered(one, "string") for one in node.nodes]
        return _filtered(node, "string")

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _REFUSED):
            name = type(node).__name__
            raise jinja2.TemplateSyntaxError(f"{name} is not supported in prompts", node.lineno)
        return super().generic_visit(node, *args, **kwargs)


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Environment(SandboxedEnvironment):
    """Jinja's sandbox, in which operators and calls are bounded."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator if its result has a size that may be."""
        if operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("% of a text is not supported; join parts with ~")
        sizes = [len(one) for one in (left, right) if isinstance(one, str | list | tuple)]
        counts = [one for one in (left, right) if isinstance(one, int)]
        if operator == "*" and sizes and counts:
            _refuse_more(sizes[0] * max(counts))
        elif operator == "+":
            _refuse_more(sum(sizes))
        elif len(counts) == 2:
            bits = [abs(count).bit_length() for count in counts]
            n_bits = bits[0] * abs(right) if operator == "**" else sum(bits)
            if operator != "%" and n_bits > MAX_BITS:
                raise SecurityError(f"a number of more than {MAX_BITS} bits")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method that makes nothing longer; there are no functions."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str) and name in _AS_FILTERS:
            return _AS_FILTERS[name](owner, *args, **kwargs)
        if not any(isinstance(owner, k) and name in v for k, v in _METHODS.items()):
            known = ", ".join((*_METHODS[str], *_AS_FILTERS))
            raise SecurityError(f"{name}() cannot be called in a prompt; of a text can: {known}")
        return super().call(context, called, *args, **kwargs)


def _refuse_more(n_chars: int) -> None:
    if n_chars > MAX_CHARS:
        raise SecurityError(f"makes more than {MAX_CHARS:,} characters")


def _refuse_large(value: Any) -> Any:
    """Return a value if its text is not too long, though its parts be the same list."""
    waiting, n_chars = [value], 0
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting.extend([*one.keys(), *one.values()])
        elif isinstance(one, list | tuple):
            waiting.extend(one)
        n_chars += len(one) if isinstance(one, str) else CHARS_OF_OTHERS
        _refuse_more(n_chars)
    return value


@jinja2.pass_context  # so that Jinja does not compute it when the template is read
def _each_step(_: Any, values: Any) -> Iterator[Any]:
    steps = _STEPS.get()
    for value in values:
        steps[0] += 1
        if steps[0] > MAX_STEPS:
            raise SecurityError(f"its loops have more than {MAX_STEPS:,} rounds")
        yield value


def _bounded_filter(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses arguments and results that are too large."""
    first = 2 if hasattr(made, "jinja_pass_arg") else 1  # of the arguments behind the value

    @functools.wraps(made)
    def bounded(*given: Any, **named: Any) -> Any:
        options = (*given[first:], *named.values())
        numbers = [one for one in options if isinstance(one, int)]
        if name in ("indent", "round", "tojson") and any(abs(one) > MAX_INDENT for one in numbers):
            raise SecurityError(f"{name}: a number above {MAX_INDENT}")
        texts = [one for one in given if isinstance(one, str)]
        if name == "indent" and len(texts) > 1:
            _refuse_more(texts[0].count("\n") * len(texts[1]))
        result = made(*given, **named)
        return _refuse_large(result) if isinstance(result, str | list | tuple | dict) else result

    return bounded


def _replace(text: Any, old: str, new: str, count: int | None = None) -> str:
    text = _text(text)
    _refuse_more(len(text) + text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


@jinja2.pass_environment
def _join(
    environment: Any, values: Any, between: str = "", attribute: str | int | None = None
) -> str:
    if attribute is not None:
        take = jinja2.filters.make_attrgetter(environment, attribute)
        values = map(take, values)
    texts = [_text(value) for value in values]
    _refuse_more(sum(map(len, texts)) + len(texts) * len(between))
    return str(between).join(texts)


def _text(value: Any) -> str:
    return str(_refuse_large(value))


_AS_FILTERS: dict[str, Callable[..., str]] = {
    "replace": _replace,
    "join": lambda between, values: _join(None, values, between),
}
"""Methods of texts that make longer ones -> the bounded function that does the same."""

_ENVIRONMENT = _Environment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_refuse_large,
)
_ENVIRONMENT.globals.clear()  # what is random would ask something else each time
for _name in LEFT_OUT:
    del _ENVIRONMENT.filters[_name]
_ENVIRONMENT.filters |= {"replace": _replace, "join": _join, "string": _text}
_ENVIRONMENT.filters = {
    name: _bounded_filter(name, made) for name, made in _ENVIRONMENT.filters.items()
} | {"each_step": _each_step}
