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
class Spending:
    """Sums over requests.

    Attributes
    ----------
    requests
        Those that brought vectors.
    texts
        Texts of these.
    tokens
        As the service counted them, or as we did where it does not say; of requests that may have
        been billed for nothing, at the most.
    retries
        Requests that brought nothing.
    usd
        Their cost at the price of the day; None if one was sent without a price.
    seconds
        Time that requests took, those at once added up.
    """

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    retries: int = 0
    usd: float | None = 0.0
    seconds: float = 0.0


class Ledger:
    """The spending on one model's vectors.

    Parameters
    ----------
    folder
        The model's folder in the store.
    job
        Name under which this job's requests are kept: a job that resumes gives the same.
    price
        US dollars per million tokens; None if unknown.
    """

    def __init__(self, folder: str | Path, *, job: str, price: float | None) -> None:
        self._folder = Path(folder) / FOLDER
        self._job, self._price = job, price
        name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        self._path = self._folder / name
        self._handle: int | None = None
        self._n_sent = 0
        self._read_to: dict[Path, int] = {}
        self._lines: dict[tuple[str, int], dict[str, Any]] = {}
        self._usd_in_all = 0.0
        self._looked = 0.0

    def send(self, *, texts: int, tokens: int) -> int:
        """Note that a request is about to leave, and the most tokens it can use; its number."""
        self._n_sent += 1
        self._append(self._n_sent, {"texts": texts, "tokens": tokens, "state": "sent"})
        return self._n_sent

    def settle(self, number: int, *, tokens: int | None, seconds: float, has_vectors: bool) -> None:
        """Replace what was noted of a request by what came of it; None: perhaps all its tokens."""
        before = self._lines[self._path.name, number]
        state = "done" if has_vectors else "failed"
        line = before | {"state": state}
        if tokens is not None:
            line["tokens"] = tokens
        self._append(number, line | {"seconds": round(seconds, 3)})

    def cost(self, tokens: int) -> float | None:
        """Return what tokens cost now; None without a price."""
        return None if self._price is None else tokens * self._price / MILLION

    def spent_usd(self) -> float:
        """Return what all jobs have spent, what is under way at its most.

        Requests noted without a price count at today's, or as nothing if there is none.
        """
        if time.monotonic() - self._looked >= LOOK_S:
            self.refresh()
        return self._usd_in_all

    def spending(self, *, job: str | None = None) -> Spending:
        """Sum up all requests, or those of one job and of those killed before it."""
        self.refresh()
        lines = [line for line in self._lines.values() if job is None or line["job"] == job]
        done = [line for line in lines if line["state"] == "done"]
        costs = [self._usd(line) for line in lines]
        known = [cost for cost in costs if cost is not None]
        return Spending(
            requests=len(done),
            texts=sum(line["texts"] for line in done),
            tokens=sum(line["tokens"] for line in lines),
            retries=len(lines) - len(done),
            usd=sum(known) if len(known) == len(costs) else None,
            seconds=round(sum(line.get("seconds", 0.0) for line in lines), 3),
        )

    def refresh(self) -> None:
        """Read what other jobs appended since the last look."""
        self._looked = time.monotonic()
        for path in sorted(self._folder.glob("*.jsonl")):
            if path != self._path:
                self._read(path)

    def close(self) -> None:
        """Make the file durable and close it."""
        if self._handle is not None:
            os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None

    def _usd(self, line: dict[str, Any]) -> float | None:
        usd = line.get("usd")
        return self.cost(line["tokens"]) if usd is None else float(usd)

    def _append(self, number: int, line: dict[str, Any]) -> None:
        line |= {"n": number, "job": self._job, "usd": self.cost(line["tokens"])}
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

    def _read(self, path: Path) -> None:
        """Read whole lines from where the last look ended; the last may be under way."""
        start = self._read_to.get(path, 0)
        with open(path, "rb") as handle:
            handle.seek(start)
            content = handle.read()
        whole = content[: content.rfind(b"\n") + 1]
        for text in whole.splitlines():
            try:
                self._note(path.name, json.loads(text))
            except (ValueError, LookupError, TypeError):
                continue  # broken off by a full disk: its request was not sent
        self._read_to[path] = start + len(whole)


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
        """Our count; `LedgerBudget` knows what a service adds."""
        return Usage(self.request.n_tokens)

    guess = 0


class LedgerBudget:
    """Holds one job's requests to ``budget_usd``, against what all jobs noted in the ledger.

    Two jobs that look at the same moment may pass it by a request each.

    Parameters
    ----------
    limit_usd
        None: requests are noted, and none is held back.
    model
        Id of the model, for the message.
    """

    def __init__(self, ledger: Ledger, *, limit_usd: float | None, model: str) -> None:
        self._ledger, self._limit_usd, self._model = ledger, limit_usd, model
        self._per_token = 1.0
        self._n_under_way = 0

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
            money = self._ledger.spent_usd() + (self._ledger.cost(tokens) or 0.0)
            if money > self._limit_usd * (1 + 1e-12):
                return False
        call.number = self._ledger.send(texts=len(call.request.texts), tokens=tokens)
        call.began = time.monotonic()
        self._n_under_way += 1
        return True

    def end(self, call: ApiCall, used: Usage | None, *, is_usable: bool) -> None:
        """Note what a request used; None: perhaps all that was reserved."""
        seconds = time.monotonic() - call.began
        tokens = None if used is None else used.input_tokens
        self._ledger.settle(call.number, tokens=tokens, seconds=seconds, has_vectors=is_usable)
        self._per_token = max(self._per_token, (tokens or 0) / max(1, call.request.n_tokens))
        self._n_under_way -= 1

    def reached(self) -> BudgetReachedError:
        """Return the error that ends the job."""
        return BudgetReachedError(
            f"model {self._model!r}: budget_usd {self._limit_usd:g}: the next request could pass "
            f"it ({self._ledger.spent_usd():.4f} USD spent). All vectors so far are stored; raise "
            "budget_usd and run again to go on."
        )
