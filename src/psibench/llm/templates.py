"""The language of prompt templates: Jinja without features that take unbounded memory or time.

A template is a user's file, and may come with another person's config. It cannot read files or call
Python (Jinja's sandbox). This module also limits the size of texts (`MAX_CHARS`) and the loops of a
message (`MAX_STEPS`), both on reading, when Jinja computes constants, and on rendering. No limit
depends on time: a template works on every machine or on none.
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
"""Characters of a message, and of any intermediate text or list."""
CHARS_OF_OTHERS = 20
"""Characters that a number or a list counts as."""
MAX_STEPS = 1_000_000
"""Iterations of all loops of a message."""
MAX_BITS = 4096
"""Size of an integer."""
MAX_INDENT = 100

TEMPLATE_ERRORS = (
    *(jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError),
    *(AttributeError, MemoryError),
)
"""Errors that a template may raise."""

_REMOVED_FILTERS = (
    *("attr", "batch", "center", "filesizeformat", "format", "pprint", "random", "slice", "urlize"),
    *("urlencode", "wordwrap", "xmlattr"),
)
"""Filters of Jinja that templates do not need; some pad to a width, or draw at random."""
_METHODS = {
    str: (
        *("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize"),
        *("split", "splitlines", "startswith", "endswith", "count"),
    ),
    dict: ("items", "keys", "values", "get"),
    jinja2.runtime.LoopContext: ("cycle", "changed"),
}
"""Methods that templates can call."""
_REFUSED = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock, nodes.FilterBlock)
_STEPS: ContextVar[list[int]] = ContextVar("steps")


def error_text(error: BaseException) -> str:
    """Return the message of one of `TEMPLATE_ERRORS`, without the position that Jinja adds."""
    return str(getattr(error, "message", None) or error) or type(error).__name__


class MessageTemplate:
    """A text with ``{{ names }}``; ``variables`` are the names it uses.

    Raises
    ------
    TEMPLATE_ERRORS
        If the text is no template; with ``lineno`` if Jinja knows it.
    """

    def __init__(self, text: str) -> None:
        tree = _Bounded().visit(_ENVIRONMENT.parse(text))
        self._template = jinja2.Template.from_code(_ENVIRONMENT, _ENVIRONMENT.compile(tree), {})
        self.variables = jinja2.meta.find_undeclared_variables(tree)

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the text with values filled in.

        Raises
        ------
        TEMPLATE_ERRORS
            If a value is missing, or does not support an operation.
        """
        _STEPS.set([0])
        pieces, n_chars = list[str](), 0
        for piece in self._template.generate(values):
            n_chars += len(piece)
            _refuse_more(n_chars)
            pieces.append(piece)
        return "".join(pieces)


class _Bounded(NodeTransformer):
    """Puts a filter around the values of loops and the operands of ``~``."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        if node.recursive:
            raise jinja2.TemplateSyntaxError("recursive loops are not supported", node.lineno)
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "each_step")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_filtered(operand, "string") for operand in node.nodes]
        return _filtered(node, "string")

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _REFUSED):
            name = type(node).__name__
            raise jinja2.TemplateSyntaxError(f"{name} is not supported in prompts", node.lineno)
        return super().generic_visit(node, *args, **kwargs)


def _filtered(node: Any, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Environment(SandboxedEnvironment):
    """Jinja's sandbox with limits on operators and calls."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operator unless its result is too large."""
        if operator == "%" and isinstance(left, str | bytes):
            raise SecurityError("% of a text is not supported; join parts with ~")
        sizes = [len(side) for side in (left, right) if isinstance(side, str | list | tuple)]
        counts = [side for side in (left, right) if isinstance(side, int)]
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
        """Call an allowed method; functions are not allowed."""
        owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
        if isinstance(owner, str) and name in _AS_FILTERS:
            return _AS_FILTERS[name](owner, *args, **kwargs)
        if not any(isinstance(owner, k) and name in v for k, v in _METHODS.items()):
            known = ", ".join((*_METHODS[str], *_AS_FILTERS))
            raise SecurityError(f"{name}() is not allowed in a prompt; allowed for texts: {known}")
        return super().call(context, called, *args, **kwargs)


def _refuse_more(n_chars: int) -> None:
    if n_chars > MAX_CHARS:
        raise SecurityError(f"the result has more than {MAX_CHARS:,} characters")


def _refuse_large(value: Any) -> Any:
    """Return a value; raise SecurityError if its text is too long, e.g. with nested lists."""
    waiting, n_chars = [value], 0
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, Mapping):
            waiting.extend([*inner.keys(), *inner.values()])
        elif isinstance(inner, list | tuple):
            waiting.extend(inner)
        n_chars += len(inner) if isinstance(inner, str) else CHARS_OF_OTHERS
        _refuse_more(n_chars)
    return value


@jinja2.pass_context  # so that Jinja does not compute it when the template is read
def _each_step(_: Any, values: Any) -> Iterator[Any]:
    steps = _STEPS.get()
    for value in values:
        steps[0] += 1
        if steps[0] > MAX_STEPS:
            raise SecurityError(f"its loops have more than {MAX_STEPS:,} iterations")
        yield value


def _bounded_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses arguments and results that are too large."""
    first = 2 if hasattr(function, "jinja_pass_arg") else 1  # index of the first option

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        options = (*args[first:], *kwargs.values())
        numbers = [option for option in options if isinstance(option, int)]
        if name in ("indent", "round", "tojson") and any(abs(n) > MAX_INDENT for n in numbers):
            raise SecurityError(f"{name}: a number above {MAX_INDENT}")
        texts = [arg for arg in args if isinstance(arg, str)]
        if name == "indent" and len(texts) > 1:
            _refuse_more(texts[0].count("\n") * len(texts[1]))
        result = function(*args, **kwargs)
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
"""Methods that can make a text longer -> the bounded function that does the same."""

_ENVIRONMENT = _Environment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_refuse_large,
)
_ENVIRONMENT.globals.clear()  # random functions would change the request each time
for _name in _REMOVED_FILTERS:
    del _ENVIRONMENT.filters[_name]
_ENVIRONMENT.filters |= {"replace": _replace, "join": _join, "string": _text}
_ENVIRONMENT.filters = {
    name: _bounded_filter(name, function) for name, function in _ENVIRONMENT.filters.items()
} | {"each_step": _each_step}
