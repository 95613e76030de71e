"""What requests for a model's vectors used: append-only files that outlive killed jobs.

Each job appends to a file of its own in the folder ``spending`` beside the model's vectors: a line
before a request leaves, with the most it can cost, and one when it is over, with what it did. Of a
request whose job was killed the first line alone is there: it counts at its most, since the service
may have done the work.
"""

import json
import logging
import math
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from psibench.errors import InputError
from psibench.llm.limits import Budget, Call
from psibench.llm.sections import MILLION, Price
from psibench.llm.usage import Usage
from psibench.reading import parse_json
from psibench.tables.atomic import write_whole

logger = logging.getLogger("psibench")

FOLDER = "spending"
MOST = 1e15
"""Of any number in a line."""


@dataclass
class EmbeddingCall(Call):
    """One request of texts and the HTTP requests made for it.

    ``n_texts`` it has, of ``n_tokens`` by our count; ``number`` and ``began_s`` are of the HTTP
    request under way.
    """

    n_texts: int = 0
    n_tokens: int = 0
    number: int = 0
    began_s: float = 0.0


class Ledger(Budget):
    """The spending on one model's vectors, and the budget that a job's requests are held to.

    Jobs of a model with a budget run one at a time: what others spent is read at the beginning.

    Parameters
    ----------
    folder
        The model's folder in the store.
    job
        Name under which this job's requests are kept: a job that resumes gives the same.
    usd_per_million
        Price of a million tokens; None if unknown.
    limit_usd
        None: requests are noted, and none is held back.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        job: str,
        usd_per_million: float | None,
        limit_usd: float | None = None,
    ) -> None:
        usd = usd_per_million or 0.0
        price = Price(input_usd=usd, output_usd=0.0, as_of=datetime.now(UTC).date())
        self._usd_per_million = usd_per_million
        self._job, self._folder = job, Path(folder) / FOLDER
        spent = sum(map(self._usd, _lines(self._folder)))
        super().__init__(math.inf if limit_usd is None else limit_usd, price, spent_usd=spent)
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        self._path = self._folder / name
        self._handle: int | None = None
        self._n_sent = 0
        self._per_token = 1.0

    def begin(self, call: Call) -> bool:
        """Note that a request leaves, if the budget holds the most it can cost.

        That is our count of its tokens, times what the service added so far: it may count more
        than the tokenizer does, prompts of its own, say.
        """
        assert isinstance(call, EmbeddingCall)
        call.most = Usage(math.ceil(call.n_tokens * self._per_token))
        if not super().begin(call):
            return False
        self._n_sent += 1
        call.number, call.began_s = self._n_sent, monotonic()
        self._note(call, call.most.input_tokens, state="sent")
        return True

    def end(self, call: Call, used: Usage | None, *, is_usable: bool) -> None:
        """Note what a request used; None: perhaps all that was reserved."""
        assert isinstance(call, EmbeddingCall)
        super().end(call, used, is_usable=is_usable)
        if used is not None:
            per_token = used.input_tokens / max(1, call.n_tokens)
            self._per_token = max(self._per_token, per_token)
        tokens = (call.most if used is None else used).input_tokens
        state, seconds = "done" if is_usable else "failed", monotonic() - call.began_s
        self._note(call, tokens, state=state, seconds=round(seconds, 3))

    def spending(self) -> dict[str, Any]:
        """Sum up the requests of this job and of those of its name that were killed before it.

        Returns
        -------
        Columns of EMBEDDING_USAGE but ``model``: requests that brought vectors and their texts;
        tokens, of requests that may have been billed for nothing at the most; ``retries`` that
        brought nothing; their cost, None if one was sent without a price; and the seconds they
        took, those at once added up.
        """
        lines = [line for line in _lines(self._folder) if line["job"] == self._job]
        done = [line for line in lines if line["state"] == "done"]
        has_price = self._usd_per_million is not None
        is_known = all(has_price or line.get("usd") is not None for line in lines)
        return {
            "requests": len(done),
            "texts": sum(line["texts"] for line in done),
            "tokens": sum(line["tokens"] for line in lines),
            "retries": len(lines) - len(done),
            "usd": sum(map(self._usd, lines)) if is_known else None,
            "seconds": round(sum(line.get("seconds", 0.0) for line in lines), 3),
        }

    def close(self) -> None:
        """Make the file durable and close it."""
        if self._handle is not None:
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None

    def _usd(self, line: dict[str, Any]) -> float:
        """Return what a request cost; one noted without a price counts at today's, if any."""
        usd = line.get("usd")
        rate = (self._usd_per_million or 0.0) / MILLION
        return float(line["tokens"] * rate if usd is None else usd)

    def _note(self, call: EmbeddingCall, tokens: int, **fields: Any) -> None:
        rate = self._usd_per_million
        line = {"n": call.number, "job": self._job, "texts": call.n_texts, "tokens": tokens}
        line |= {"usd": None if rate is None else tokens * rate / MILLION} | fields
        if self._handle is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        text = json.dumps(line, separators=(",", ":")) + "\n"
        write_whole(self._handle, text.encode(), self._path)


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the last line about each request, of all jobs, and tell of damaged ones."""
    for path in sorted(folder.glob("*.jsonl")):
        last, n_damaged = dict[int, dict[str, Any]](), 0
        texts = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        for text in texts:
            with suppress(InputError):
                line = parse_json(text, where=str(path))
                if _is_line(line):
                    last[line["n"]] = line
                    continue
            n_damaged += text.endswith(b"\n")  # else broken off: it was not sent
        if n_damaged:
            words = "what they say was spent does not count; they are"
            logger.warning("%s: %d damaged lines; %s passed over", path, n_damaged, words)
        yield from last.values()


def _is_line(line: object) -> bool:
    kinds = {"n": int, "job": str, "state": str, "texts": int, "tokens": int}
    further = dict.fromkeys(("usd", "seconds"), int | float | None)
    return (
        isinstance(line, dict)
        and all(isinstance(line.get(name), kind) for name, kind in (kinds | further).items())
        and all(0 <= line[name] <= MOST for name in line if isinstance(line[name], int | float))
    )
