"""What the stand-in's rules are given: one request, read."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psibench.llm.standin.judges import Judge, by_words


@dataclass(frozen=True)
class Task:
    """What a handler works on: the messages joined, random numbers, whether to err, the judge."""

    prompt: str
    rng: random.Random
    is_wrong: bool = False
    judge: Judge = by_words


Handler = Callable[[Task], dict[str, Any]]
