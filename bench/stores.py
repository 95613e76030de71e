"""Opening and reading a store of 20 million answers from 4,000 jobs.

Answers are short, so that their number matters. A fresh process opens the store, reads 20,000
random keys one by one, and sums up the usage of all answers: once after the system dropped its
file cache, and once more. The goals apply to the second time.

    python bench/stores.py [--answers 20000000] [--jobs 4000] [--keys 20000] [--folder DIR]

Takes about ten minutes and 9 GB in DIR. An existing DIR is measured without making the store again;
the default is a temporary folder, which is deleted at the end.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from support.goals import tell_goal

SEED = 42


def key_of(number: int) -> str:
    """Return the key of an answer, the hash of a number."""
    return hashlib.sha256(b"%d" % number).hexdigest()


def make(folder: Path, n_answers: int, n_jobs: int) -> None:
    """Add and index the answers, job after job.

    Lines have the store's format and differ only in key and grade, so that all lines of a job can
    be made and scanned at once.
    """
    import numpy as np

    from psibench.llm.answer import Answer
    from psibench.llm.answer_store import ANSWERS
    from psibench.llm.usage import Usage
    from psibench.store.index import KEY
    from psibench.store.keyed import KeyedStore, Scan
    from psibench.store.records import read_record, write_record

    began, per_job, used = time.perf_counter(), n_answers // n_jobs, Usage(900, 12)
    some, created = 64 * "f", "2026-01-01T00:00:00Z"
    like = Answer(some, "grade", "m", '{"grade": 9}', "stop", None, used, 1, 0.5, created)
    whole = write_record(some, asdict(like))
    pieces = whole[len('{"sum":"00000000') : -1].split(some.encode())
    first, second, (third, fourth) = pieces[0], pieces[1], pieces[2].split(b"9}")

    def line(key: bytes, grade: int) -> bytes:
        tail = b"%s%s%s%s%s%d}%s" % (first, key, second, key, third, grade, fourth)
        return b'{"sum":"%08x%s\n' % (zlib.crc32(tail), tail)

    def scan(log: Path) -> Scan:
        rows = np.frombuffer(log.read_bytes(), np.uint8).reshape(-1, len(whole))
        at = len('{"sum":"00000000","key":"')
        keys = np.frombuffer(bytes.fromhex(rows[:, at : at + 32].tobytes().decode()), KEY)
        sizes = np.full(len(rows), len(whole))
        summary = (900 * len(rows), 12 * len(rows), 0, 0)
        return Scan(keys, np.arange(len(rows)) * len(whole), sizes, summary)

    assert read_record(line(key_of(0).encode(), 0)) is not None
    kind = replace(ANSWERS, scan=scan, log_bytes=1 << 40)
    for job in range(n_jobs):
        store = KeyedStore(folder, kind)
        numbers = range(job * per_job, (job + 1) * per_job)
        store.add(b"".join(line(key_of(n).encode(), n % 5) for n in numbers))
        store.seal()
    print(f"made in {time.perf_counter() - began:.0f} s, {time.process_time():.0f} of the CPU")


def measure(folder: Path, n_answers: int, n_keys: int) -> dict[str, float]:
    """Open, read and sum up; return wall and CPU seconds and peak MiB of each step."""
    from psibench.llm.answer_store import AnswerStore

    known = [key_of(n) for n in random.Random(SEED).sample(range(n_answers), n_keys)]
    store, found = AnswerStore(folder), dict[str, float]()
    steps: dict[str, Callable[[], bool]] = {
        "open": lambda: store.get(key_of(n_answers)) is None,
        "read": lambda: all(store.get(key) is not None for key in known),
        "sum up": lambda: store.usage().output_tokens == 12 * n_answers,
    }
    for name, step in steps.items():
        began, used = time.perf_counter(), time.process_time()
        assert step(), name
        found |= {name: time.perf_counter() - began, f"CPU {name}": time.process_time() - used}
        found[f"MiB {name}"] = mib()
    return found


def mib() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget(folder: Path) -> None:
    """Drop the files from the system's file cache."""
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def main() -> None:
    """Make a store if it is missing, and measure it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--answers", type=int, default=20_000_000)
    parser.add_argument("--jobs", type=int, default=4_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.folder, args.answers, args.keys)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "store"
        if not folder.exists():
            make(folder, args.answers, args.jobs)
        files = [path.stat().st_size for path in folder.iterdir()]
        print(f"{args.answers:,} answers, {len(files):,} files, {sum(files) / 2**30:.2f} GiB\n")
        print("| | | s | CPU s | MiB at most |\n|---|---|--:|--:|--:|")
        for state in ("forgotten", "once more"):
            if state == "forgotten":
                forget(folder)
            command = [sys.executable, __file__, "--child", "--folder", str(folder)]
            command += ["--answers", str(args.answers), "--keys", str(args.keys)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            for name in ("open", "read", "sum up"):
                s, cpu, most = (found[key] for key in (name, f"CPU {name}", f"MiB {name}"))
                print(f"| {state} | {name} | {s:.2f} | {cpu:.2f} | {most:.0f} |", flush=True)
        print()
        tell_goal("seconds to open 20 million answers", found["open"], 0.2, at_most=True)
        tell_goal("MiB with 20 million answers open", found["MiB open"], 200, at_most=True)
        tell_goal(f"seconds to read {args.keys:,} answers", found["read"], 1, at_most=True)


if __name__ == "__main__":
    main()
