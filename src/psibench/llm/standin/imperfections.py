"""Faults the stand-in commits on purpose: seeded, and switched on by whoever tests."""

import random
from dataclasses import dataclass, fields, replace
from typing import Self

from psibench.errors import InputError

HEADER = "X-Stand-In"
"""Header of a request that overrides the server's options, in the same notation."""
TRANSPORT = ("rate_limited", "server_error", "reset", "hang")
CONTENT = (
    *("malformed", "untidy", "refusal", "truncated", "filtered", "huge"),
    "wrong_position",
)


@dataclass(frozen=True)
class Imperfections:
    """How often what goes wrong: shares of replies in [0, 1], times in seconds.

    HTTP faults exclude each other: ``rate_limited`` (429), ``server_error`` (500), ``reset`` (the
    connection breaks inside the body), ``hang`` (no reply at all). So do faults of content:
    ``malformed`` (half a JSON text), ``untidy`` (readable, but no plain JSON), ``refusal``,
    ``truncated``, ``filtered``, ``huge`` (``huge_mb`` of reply), ``wrong_position``.

    Every reply takes ``delay_s``, a share ``slow`` of them ``slow_s`` more. A 429 asks for
    ``retry_after_s``; with ``echo_key`` errors repeat the Authorization header, as careless servers
    do. ``seed`` is of all draws: the n-th reply to one and the same request has its own.
    """

    rate_limited: float = 0.0
    server_error: float = 0.0
    reset: float = 0.0
    hang: float = 0.0
    malformed: float = 0.0
    untidy: float = 0.0
    refusal: float = 0.0
    truncated: float = 0.0
    filtered: float = 0.0
    huge: float = 0.0
    wrong_position: float = 0.0
    delay_s: float = 0.0
    slow: float = 0.0
    slow_s: float = 1.0
    retry_after_s: float = 0.0
    huge_mb: float = 5.0
    echo_key: float = 0.0
    seed: float = 0.0

    @classmethod
    def parse(cls, text: str, base: Self | None = None) -> Self:
        """Read ``malformed=0.2,delay_s=0.05`` over ``base``.

        Raises
        ------
        InputError
            If a name is unknown or a value no number.
        """
        base = base or cls()
        known = [f.name for f in fields(cls)]
        given = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.partition("=")
            try:
                given[name.strip()] = float(value)
            except ValueError:
                raise InputError(f"stand-in option {part!r}; expected name=number") from None
            if name.strip() not in known:
                raise InputError(f"stand-in option {name!r}; known: {', '.join(known)}")
        return replace(base, **given)

    def draw(self, body: str, number: int) -> tuple[float, str | None, str | None]:
        """Draw what the ``number``-th reply to a body, given by its hash, is to suffer.

        Returns
        -------
        Seconds it takes; rate_limited, server_error, reset, hang or None; a fault of content or
        None.
        """
        rng = random.Random(f"{self.seed}:{body}:{number}")
        wait_s = self.delay_s + (self.slow_s if rng.random() < self.slow else 0.0)
        return wait_s, self._draw(TRANSPORT, rng), self._draw(CONTENT, rng)

    def _draw(self, names: tuple[str, ...], rng: random.Random) -> str | None:
        place = rng.random()
        for name in names:
            place -= getattr(self, name)
            if place < 0:
                return name
        return None
