"""Secrets: refused in a config, read from the environment, and hidden in messages and logs."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from psibench.errors import InputError

SECRET_KEY = re.compile(
    r"(?i)(^|[_-])((api|secret|access|private|auth|account)[_-]?key|((access|auth)[_-]?)?token"
    r"|secret|password|passwd|passphrase|(proxy[_-])?authorization|bearer|cookie|credentials?)$"
)
_NO_NAME = r"(?=(?:[A-Za-z0-9]*[-_])*(?![A-Za-z]{0,15}[0-9]{0,8}(?![A-Za-z0-9]))[A-Za-z0-9]{12,})"
"""Lookahead for 12 letters and digits that are not a word, a number, or a word with a number: names
of files and models also begin with sk- (Slovak), pa- (Punjabi) and hf_ (Hugging Face)."""
SECRET_VALUE = re.compile(
    r"(?<![\w-])("
    rf"sk-{_NO_NAME}[\w-]{{16,}}|hf_{_NO_NAME}\w{{16,}}|pa-{_NO_NAME}\w{{20,}}"
    r"|gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w-]{18,}"
    r"|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|xox[a-z]-[\w-]{10,}"
    r"|(?:gsk|r8|fw|jina|npm)_[A-Za-z0-9]{20,}|(?:xai|pplx|csk)-[A-Za-z0-9]{30,}"
    r"|nvapi-[\w-]{40,}|tgp_v1_[\w-]{30,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r")"
)
"""Keys of services with a recognisable format; eyJ... is a JSON Web Token."""
_BEARER = re.compile(r"(?i)(bearer\s+)(?=[a-z.~+/=_-]{0,99}\d)[\w.~+/=-]{8,}")
_OPTION = re.compile(
    r"(?:--?(?P<option>[A-Za-z][\w-]*)|(?P<variable>[A-Za-z]\w*))(?P<given>=.*)?", re.DOTALL
)
NO_VARIABLE = (
    "expected the name of an environment variable, e.g. OPENAI_API_KEY; found something else, "
    "perhaps the key itself (not shown). Export the variable and put its name here"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def refuse_secrets(value: Any, *, key: str = "") -> None:
    """Raise InputError if a config has a value that looks, or a key that is named, like a secret.

    Refuses a value in the format of a key; any text under a name like ``api_key``, whether the name
    is a config key, an option or a variable in a list; and a value that cannot be the name of an
    environment variable under a key that ends in ``_env``. The message never has the value.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            path = f"{key}.{name}" if key else str(name)
            _refuse_entry(str(name), inner, key=key, path=path)
            refuse_secrets(inner, key=path)
    elif isinstance(value, str):
        if holds_secret(value):
            raise _refusal(key)
    elif isinstance(value, Sequence):
        for index, inner in enumerate(value):
            if isinstance(inner, str) and _names_secret(inner, value[index + 1 : index + 2]):
                raise _refusal(f"{key}[{index}]")
            refuse_secrets(inner, key=f"{key}[{index}]")


def _refuse_entry(name: str, value: Any, *, key: str, path: str) -> None:
    if holds_secret(name):
        raise _refusal(f"{key} (a name in it)" if key else "(top level)")
    if _is_secret(name, value):
        raise _refusal(path)
    if name.endswith("_env") and isinstance(value, str) and not is_variable(value):
        raise InputError(f"config key {path}: {NO_VARIABLE}")


def holds_secret(text: str) -> bool:
    """Return whether a text contains the format of a key."""
    return bool(SECRET_VALUE.search(text) or _BEARER.search(text))


def is_variable(text: str) -> bool:
    """Return whether a text is, or could be, the name of an environment variable, and not a key."""
    runs = _RUN.findall(text)
    is_key = any(sum(map(str.isdigit, run)) >= 2 or not run.isupper() for run in runs)
    return bool(_VARIABLE.fullmatch(text)) and (text in os.environ or not is_key)


def _is_secret(name: str, value: Any) -> bool:
    """Return whether a config key is named like a secret and has a value.

    Keys with ``token`` may also have counts, or items of a vocabulary, e.g. ``<pad>``.
    """
    is_count = isinstance(value, int | float)
    is_mark = isinstance(value, str) and value.startswith(("<", "["))
    is_token = name.lower().endswith("token") and (is_count or is_mark)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return bool(SECRET_KEY.search(snake)) and value not in (None, "") and not is_token


def _names_secret(word: str, following: Sequence[Any]) -> bool:
    """Return whether a word of a command sets a secret: ``--api-key KEY``, ``HF_TOKEN=KEY``."""
    found = _OPTION.fullmatch(word)
    if found is None or (found["variable"] and not found["given"]):
        return False
    given = found["given"][1:] if found["given"] else next(iter(following), "")
    return not str(given).isdecimal() and _is_secret(found["option"] or found["variable"], given)


def _refusal(key: str) -> InputError:
    return InputError(
        f"config key {key}: holds a secret (value not shown). psibench reads secrets only from "
        "the environment: export the variable and remove this key."
    )


HIDDEN = "[key]"

_USER, _QUERY = re.compile(r"://[^/@\s]*@"), re.compile(r"(://[^?#\s'\"]*)[?#][^\s'\"]*")
_MASKED = re.compile(r"\b(sk|pa|hf)[-_][\w-]*\*{2,}[\w*-]*")


_ADDRESS, _RUN = re.compile(r"://[^\s'\"]+"), re.compile(r"[A-Za-z0-9]{16,}")


def without_keys(text: str) -> str:
    """Hide keys in a text, in any known format or in an address, and user names before @."""
    text = _ADDRESS.sub(lambda address: _RUN.sub(_hidden_if_random, address[0]), text)
    text = _MASKED.sub(HIDDEN, _USER.sub("://[hidden]@", text))
    return SECRET_VALUE.sub(HIDDEN, _BEARER.sub(rf"\1{HIDDEN}", text))


def without_secrets(text: str) -> str:
    """Hide keys in a text, and the parts of addresses before @ and after ?."""
    return without_keys(_QUERY.sub(r"\1?[hidden]", text))


def _hidden_if_random(run: re.Match[str]) -> str:
    return HIDDEN if _looks_random(run[0]) else run[0]


def _looks_random(run: str) -> bool:
    """Return whether letters and digits are mixed as in a key.

    Excludes hexadecimal texts, which may name accounts, and texts with a word, which may name
    models, e.g. Qwen25Instruct72B.
    """
    n_digits = sum(map(str.isdigit, run))
    is_mixed = not (run.islower() or run.isupper()) and n_digits >= 2
    is_mixed = is_mixed and not re.search(r"[A-Za-z][a-z]{5}", run)
    is_long = len(run) >= 24 and n_digits >= 4 and not re.fullmatch(r"[0-9A-Fa-f]+", run)
    return is_mixed or is_long


def plain_address(value: str) -> str:
    """Return an address unchanged if it may be stored, logged and shown.

    Raises
    ------
    ValueError
        If it is not an http(s) address of a host, or has a user name, a password, a query or
        characters that an address cannot have. The message does not quote it.
    """
    if not value.isprintable() or " " in value:
        raise ValueError("holds blanks or characters that no address has")
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"not an address: {without_secrets(str(error))}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http(s) address, e.g. http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("holds a user name, password or query; keys go in the environment")
    if any(_looks_random(run) for run in _RUN.findall(parts.path)):
        raise ValueError("its path seems to hold a key; keys go in the environment")
    return value


class Secret:
    """An API key that is never printed; empty for a server without keys."""

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def from_environment(cls, name: str | None, *, key: str = "api_key_env") -> "Secret":
        """Read the environment variable ``name``, the value of config key ``key``.

        None gives an empty secret.

        Raises
        ------
        InputError
            If ``name`` cannot be a variable's name, or the variable is not set or empty.
        """
        if name is None:
            return cls("")
        if not is_variable(name):
            raise InputError(f"config key {key}: {NO_VARIABLE}")
        value = os.environ.get(name, "").strip()
        if not value:
            raise InputError(
                f"environment variable {name} (config key {key}) is not set; export it with "
                f"the server's API key, or set {key} to null for a server without keys"
            )
        if not value.isascii() or not value.isprintable():
            raise InputError(
                f"environment variable {name} (config key {key}) holds characters that no "
                "API key has; copy the key again"
            )
        return cls(value)

    def reveal(self) -> str:
        """Return the key; only the HTTP client may call this."""
        return self._value

    def scrub(self, text: str) -> str:
        """Hide the key, its masked form and anything that looks like a key in a text."""
        return without_keys(self.scrub_exactly(text))

    def scrub_exactly(self, text: str) -> str:
        """Hide only the key itself in a text, e.g. a reply, which may not change otherwise."""
        return text.replace(self._value, HIDDEN) if len(self._value) >= 4 else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled; pass the variable's name")
