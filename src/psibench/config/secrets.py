"""Secrets do not belong in a config: they would end up in logs, metadata and git."""

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
