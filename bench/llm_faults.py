"""Faults that the LLM engine survives: lost answers, and answers paid for twice.

items     requests of all jobs together
faults    number of faults: kills, tries without a reply, repeats, huge replies, jobs
requests  received by the server, singly or as lines of a batch
answered  complete replies
stored    different requests with a stored answer at the end
lost      items without a reply at the end
twice     different requests answered more than once
allowed   upper bound of "twice": requests in flight of each interrupted client; all requests for
          two jobs at once; 0 without interruption and for batches

Each row is one fault. Clients and the test server are separate processes. A kernel limit on file
sizes simulates the full disk. Exit status 1 if a row exceeds its bound or its fault did not occur.

    python bench/llm_faults.py [--items 600] [--only NAME]
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.llm_processes import IN_FLIGHT, SEED, STOPPED, Server, Trial, line_of

N_KILLS = 10
FEWEST_ITEMS = 200
HUGE_CHARS = 5_000_000
FREE_BYTES = 150  # disk space per item; an answer takes about 500
COLUMNS = ("items", "faults", "requests", "answered", "stored", "lost", "twice", "allowed")


def ask_once(trial: Trial, **options: Any) -> None:
    """Run one client to its end."""
    trial.finish(trial.start(**options))


def kill_clients(trial: Trial) -> None:
    """Kill clients, one after the other, each after a random number of items done."""
    rng, done = random.Random(SEED), set[str]()
    for n_done in sorted(rng.sample(range(1, int(0.9 * trial.n_items)), N_KILLS)):
        client = trial.start()
        while len(done) < n_done:
            done.add(line_of(client).split()[0])
        time.sleep(rng.uniform(0, 0.05))
        trial.kill(client)
    ask_once(trial)


def restart_server(trial: Trial) -> None:
    """Stop the server when a third of the items is done, and start it again."""
    client = trial.start()
    head = [line_of(client) for _ in range(trial.n_items // 3)]
    trial.server.stop()
    trial.n_faults += trial.server.answered.total() < trial.n_items
    trial.allowed = IN_FLIGHT
    trial.server.start()
    trial.finish(client, *head)


def fill_disk(trial: Trial) -> None:
    """Limit the disk to a third of the answers, then remove the limit."""
    client = trial.start(free_bytes=FREE_BYTES * trial.n_items)
    words = client.communicate()[0]
    is_stopped = client.returncode == STOPPED and "could not be stored" in words
    trial.n_faults += is_stopped and 0 < trial.stored < trial.n_items
    trial.allowed = IN_FLIGHT
    ask_once(trial)


def share_store(trial: Trial) -> None:
    """Run two jobs with the same requests at once: no answer is lost, many requests repeat."""
    clients = [trial.start(job) for job in "ab"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(trial.finish, clients))
    trial.n_faults = len(list(trial.store.glob("answers-*")))
    trial.allowed = trial.n_items


def kill_batch_job(trial: Trial) -> None:
    """Kill a job while the server works on its batch."""
    client = trial.start(backend="openai-batch")
    while client.poll() is None and not _is_batch_created(trial.store):
        time.sleep(0.02)
    if trial.stored == 0:
        trial.kill(client, at_risk=0)
    ask_once(trial, backend="openai-batch")


def _is_batch_created(store: Path) -> bool:
    records = (json.loads(path.read_text()) for path in store.glob("batches/*.json"))
    return any(record["batch_id"] for record in records)


def _n_unanswered(trial: Trial) -> int:
    return trial.server.n_requests - trial.server.answered.total()


def _n_reasks(trial: Trial) -> int:
    return trial.stored - trial.n_items


def _n_huge(trial: Trial) -> int:
    return sum(n_chars >= HUGE_CHARS for _, n_chars in trial.replies.values())


@dataclass(frozen=True)
class Fault:
    """A fault: title, imperfections of the server, action on the processes, count, least count."""

    title: str
    imperfections: str
    act: Callable[[Trial], None] = ask_once
    count: Callable[[Trial], int] = lambda trial: trial.n_faults
    least: int = 1


FAULTS = {
    "kill": Fault("kill -9 of the client", "delay_s=0.05", kill_clients, least=N_KILLS),
    "restart": Fault("server restarted", "delay_s=0.05", restart_server),
    "failing": Fault(
        "429, 500, timeout: 30 %",
        "rate_limited=0.15,retry_after_s=0.05,server_error=0.1,hang=0.05",
        lambda trial: ask_once(trial, timeout_s=2.0),
        _n_unanswered,
    ),
    "reset": Fault("reset inside the body: 30 %", "reset=0.3", count=_n_unanswered),
    "malformed": Fault("malformed JSON: 20 %", "malformed=0.2", count=_n_reasks),
    "huge": Fault("reply of 5 MB: 1 %", "huge=0.01,huge_mb=5", count=_n_huge),
    "disk": Fault("disk full while storing", "delay_s=0.02", fill_disk),
    "jobs": Fault("two jobs share a store", "delay_s=0.05", share_store, least=2),
    "batch": Fault("batch job killed", "batch_delay_s=3", kill_batch_job),
}


def measure(fault: Fault, n_items: int) -> tuple[dict[str, Any], list[str]]:
    """Run one fault; return its row, and a message for each broken bound."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(n_items, Server(fault.imperfections), Path(folder) / "store")
        try:
            fault.act(trial)
        finally:
            trial.server.stop()
        answered = trial.server.answered
        row: dict[str, Any] = {
            "items": len(trial.wanted),
            "faults": fault.count(trial),
            "requests": trial.server.n_requests,
            "answered": answered.total(),
            "stored": trial.stored,
            "lost": len(trial.wanted - trial.replies.keys()),
            "twice": sum(n > 1 for n in answered.values()),
            "allowed": trial.allowed,
            "seconds": time.perf_counter() - started,
            "outcomes": Counter(status for status, _ in trial.replies.values()),
        }
    surplus = row["answered"] - row["stored"]  # a request answered three times counts twice
    checks = {
        f"{row['faults']} faults, expected {fault.least} or more": row["faults"] < fault.least,
        f"{row['lost']} items lost": row["lost"] > 0,
        f"{surplus} replies more than requests, {trial.allowed} allowed": surplus > trial.allowed,
    }
    return row, [words for words, is_broken in checks.items() if is_broken]


def main() -> None:
    """Read the options, run the faults and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=600, help="per job")
    parser.add_argument("--only", choices=FAULTS, help="one fault")
    args = parser.parse_args()
    if args.items < FEWEST_ITEMS:
        parser.error(f"--items: below {FEWEST_ITEMS} a rare fault may not occur")
    print(f"{'fault':28}" + "".join(f"{name:>9}" for name in COLUMNS) + "  seconds  outcomes")
    broken = []
    for name in [args.only] if args.only else FAULTS:
        row, words = measure(FAULTS[name], args.items)
        figures = "".join(f"{row[column]:9}" for column in COLUMNS)
        outcomes = ", ".join(f"{n} {status}" for status, n in row["outcomes"].most_common())
        print(f"{FAULTS[name].title:28}{figures}{row['seconds']:9.1f}  {outcomes}", flush=True)
        broken += [f"{name}: {what}" for what in words]
    if broken:
        sys.exit("Broken: " + "; ".join(broken))


if __name__ == "__main__":
    main()
