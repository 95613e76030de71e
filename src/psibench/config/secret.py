"""The API key: read from the environment, never shown."""

import os
import re

from psibench.config.secrets import SECRET_VALUE
from psibench.errors import InputError

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
