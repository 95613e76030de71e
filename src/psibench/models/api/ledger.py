"""What requests for a model's vectors used: append-only files that outlive killed jobs.

Each job appends to a file of its own in the folder ``spending`` beside the model's vectors: a line
before a request leaves, with the most it can cost, and one when it is over, with what it did. Of a
request whose job was killed the first line alone is there: it counts at its most, since the service
may have done the work.
"""

import json
import math
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.llm.limits import Call
from psibench.llm.sections import MILLION
from psibench.llm.usage import BudgetReachedError, Usage
from psibench.models.protocols import Role

FOLDER = "spending"
LOOK_S = 1.0
"""How often the files of other jobs are looked at while requests are sent."""


@dataclass(frozen=True)
class ApiRequest:
    """Texts of one request.

    Attributes
    ----------
    keys
        Address of each text's vector in the store.
    texts
        What is sent.
    n_tokens
        Their tokens by our count.
    """

    role: Role
    keys: tuple[bytes, ...]
    texts: tuple[str, ...]
    n_tokens: int


class ApiCall(Call):
    """One request of texts and the HTTP requests made for it."""

    request: ApiRequest
    number = 0
    """Of the HTTP request under way, in the ledger."""
    began = 0.0

    @property
    def most(self) -> Usage:
        """Our count; the ledger knows what a service adds."""
        return Usage(self.request.n_tokens)

    guess = 0


class Ledger:
    """The spending on one model's vectors, and the budget that a job's requests are held to.

    The budget is held against what all jobs noted. Two jobs that look at the same moment may pass
    it by a request each.

    Parameters
    ----------
    folder
        The model's folder in the store.
    job
        Name under which this job's requests are kept: a job that resumes gives the same.
    price
        US dollars per million tokens; None if unknown.
    limit_usd
        None: requests are noted, and none is held back.
    model
        Id of the model, for the message.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        job: str,
        price: float | None,
        limit_usd: float | None = None,
        model: str = "",
    ) -> None:
        self._folder = Path(folder) / FOLDER
        self._job, self._price, self._limit_usd, self._model = job, price, limit_usd, model
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        self._path = self._folder / name
        self._handle: int | None = None
        self._n_sent = self._n_under_way = 0
        self._per_token = 1.0
        self._read_to: dict[Path, int] = {}
        self._lines: dict[tuple[str, int], dict[str, Any]] = {}
        self._usd_in_all = 0.0
        self._looked = 0.0

    @property
    def has_reservations(self) -> bool:
        """Whether a request of this job is under way that may use less than reserved."""
        return self._n_under_way > 0

    def begin(self, call: ApiCall) -> bool:
        """Note that a request leaves, if the budget holds the most it can cost.

        That is our count of its tokens, times what the service added so far: it may count more
        than the tokenizer does, prompts of its own, say.
        """
        tokens = math.ceil(call.request.n_tokens * self._per_token)
        if self._limit_usd is not None:
            money = self.spent_usd() + (self._cost(tokens) or 0.0)
            if money > self._limit_usd * (1 + 1e-12):
                return False
        self._n_sent += 1
        call.number, call.began = self._n_sent, time.monotonic()
        n_texts = len(call.request.texts)
        self._append(call.number, {"texts": n_texts, "tokens": tokens, "state": "sent"})
        self._n_under_way += 1
        return True

    def end(self, call: ApiCall, used: Usage | None, *, is_usable: bool) -> None:
        """Note what a request used; None: perhaps all that was reserved."""
        line = self._lines[self._path.name, call.number] | {
            "state": "done" if is_usable else "failed",
            "seconds": round(time.monotonic() - call.began, 3),
        }
        if used is not None:
            line["tokens"] = used.input_tokens
            per_token = used.input_tokens / max(1, call.request.n_tokens)
            self._per_token = max(self._per_token, per_token)
        self._append(call.number, line)
        self._n_under_way -= 1

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the job."""
        return BudgetReachedError(
            f"model {self._model!r}: budget_usd {self._limit_usd:g}: the next request could pass "
            f"it ({self.spent_usd():.4f} USD spent). All vectors so far are stored; raise "
            "budget_usd and run again to go on."
        )

    def spent_usd(self) -> float:
        """Return what all jobs have spent, what is under way at its most.

        Requests noted without a price count at today's, or as nothing if there is none. Other
        jobs' files are looked at once a second.
        """
        if time.monotonic() - self._looked >= LOOK_S:
            self._refresh()
        return self._usd_in_all

    def spending(self) -> dict[str, Any]:
        """Sum up the requests of this job and of those of its name that were killed before it.

        Returns
        -------
        Columns of EMBEDDING_USAGE but ``model``: requests that brought vectors and their texts;
        tokens, of requests that may have been billed for nothing at the most; ``retries`` that
        brought nothing; their cost, None if one was sent without a price; and the seconds they
        took, those at once added up.
        """
        self._refresh()
        lines = [line for line in self._lines.values() if line["job"] == self._job]
        done = [line for line in lines if line["state"] == "done"]
        costs = [self._usd(line) for line in lines]
        known = [cost for cost in costs if cost is not None]
        return {
            "requests": len(done),
            "texts": sum(line["texts"] for line in done),
            "tokens": sum(line["tokens"] for line in lines),
            "retries": len(lines) - len(done),
            "usd": sum(known) if len(known) == len(costs) else None,
            "seconds": round(sum(line.get("seconds", 0.0) for line in lines), 3),
        }

    def close(self) -> None:
        """Make the file durable and close it."""
        if self._handle is not None:
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None

    def _cost(self, tokens: int) -> float | None:
        return None if self._price is None else tokens * self._price / MILLION

    def _usd(self, line: dict[str, Any]) -> float | None:
        usd = line.get("usd")
        return self._cost(line["tokens"]) if usd is None else float(usd)

    def _append(self, number: int, line: dict[str, Any]) -> None:
        line |= {"n": number, "job": self._job, "usd": self._cost(line["tokens"])}
        if self._handle is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._handle = os.open(self._path, flags, 0o666)
        os.write(self._handle, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        self._note(self._path.name, line)

    def _note(self, name: str, line: dict[str, Any]) -> None:
        """Take a line of a file in the place of an earlier one about the same request."""
        key = name, int(line["n"])
        before = self._lines.get(key)
        self._usd_in_all += self._usd(line) or 0.0
        self._usd_in_all -= (self._usd(before) or 0.0) if before else 0.0
        self._lines[key] = line

    def _refresh(self) -> None:
        """Read the whole lines that other jobs appended since the last look."""
        self._looked = time.monotonic()
        for path in sorted(self._folder.glob("*.jsonl")):
            if path == self._path:
                continue
            with open(path, "rb") as handle:
                handle.seek(self._read_to.get(path, 0))
                content = handle.read()
            whole = content[: content.rfind(b"\n") + 1]
            for text in whole.splitlines():
                try:
                    self._note(path.name, json.loads(text))
                except (ValueError, LookupError, TypeError):
                    continue  # broken off by a full disk: its request was not sent
            self._read_to[path] = self._read_to.get(path, 0) + len(whole)
