"""Secrets: refused in a config, read from the environment, taken out of what is shown."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from psibench.errors import InputError

SECRET_KEY = re.compile(
    r"(?i)(^|[_-])((api|secret|access|private)[_-]?key|((access|auth)[_-]?)?token"
    r"|secret|password|passwd)$"
)
SECRET_VALUE = re.compile(
    r"(?<![\w-])(sk-[\w-]{16,}|hf_\w{16,}|gh[pousr]_\w{16,}|AKIA[0-9A-Z]{16}|pa-\w{20,})"
)


def refuse_secrets(value: Any, *, key: str = "") -> None:
    """Raise InputError if a config holds something that is, or is named like, a secret.

    The message names the key only, never the value. A key that ends in ``_env`` names an
    environment variable and is fine.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            path = f"{key}.{name}" if key else str(name)
            if _is_secret(str(name), inner):
                raise _refusal(path)
            refuse_secrets(inner, key=path)
    elif isinstance(value, str):
        if SECRET_VALUE.search(value):
            raise _refusal(key)
    elif isinstance(value, Sequence):
        for index, inner in enumerate(value):
            refuse_secrets(inner, key=f"{key}[{index}]")


def _is_secret(name: str, value: Any) -> bool:
    """Say whether a key is named like a secret and holds one; a token may also be counted."""
    is_count = isinstance(value, int | float) and name.lower().endswith("token")
    return bool(SECRET_KEY.search(name)) and value not in (None, "") and not is_count


def _refusal(key: str) -> InputError:
    return InputError(
        f"config key {key}: holds a secret (value not shown). Secrets are read from the "
        "environment only: export the variable and take this key out."
    )


_USER, _QUERY = re.compile(r"://[^/@\s]*@"), re.compile(r"(://[^?#\s'\"]*)[?#][^\s'\"]*")


def without_secrets(text: str) -> str:
    """Hide what addresses in a text hold before @ and after ?: names, passwords, keys."""
    return _QUERY.sub(r"\1?[hidden]", _USER.sub("://[hidden]@", text))


def plain_address(value: str) -> str:
    """Return an address as it is, if it is one that may be stored, logged and shown.

    Raises
    ------
    ValueError
        If it is no http(s) address of a host, or holds a user name, a password, a query or what no
        address has. The words do not quote it.
    """
    if not value.isprintable() or " " in value:
        raise ValueError("holds blanks or characters that no address has")
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"not an address: {without_secrets(str(error))}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http(s) address, as in http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("holds a user name, password or query; keys go in the environment")
    return value


HIDDEN = "[key]"

_MASKED = re.compile(r"\b(sk|pa|hf)[-_][\w-]*\*{2,}[\w*-]*")
_BEARER = re.compile(r"(?i)(bearer\s+)[\w.~+/=-]{8,}")


class Secret:
    """A key (empty where a server needs none) that hides itself when printed, or in texts."""

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def from_environment(cls, name: str | None, *, key: str = "api_key_env") -> "Secret":
        """Read the variable ``name``, which stands in config key ``key``; no name is no key.

        Raises
        ------
        InputError
            If the variable is not set or empty.
        """
        if name is None:
            return cls("")
        value = os.environ.get(name, "").strip()
        if not value:
            raise InputError(
                f"environment variable {name} (config key {key}) is not set; export it with "
                f"the server's API key, or set {key} to null for a server without keys"
            )
        if not value.isascii() or not value.isprintable():
            raise InputError(
                f"environment variable {name} (config key {key}) holds characters that no "
                "API key has; copy the key anew"
            )
        return cls(value)

    def reveal(self) -> str:
        """Return the key itself, for the HTTP client alone."""
        return self._value

    def scrub(self, text: str) -> str:
        """Take the key, its masked form and anything that looks like a key out of a text."""
        text = self.scrub_exactly(text)
        text = _MASKED.sub(HIDDEN, text)
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
        return SECRET_VALUE.sub(HIDDEN, text)

    def scrub_exactly(self, text: str) -> str:
        """Take the key itself out of a text: for replies, where nothing else may change."""
        return text.replace(self._value, HIDDEN) if len(self._value) >= 4 else text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not pickled; pass the variable's name")
