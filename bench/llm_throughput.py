"""Requests per second of the LLM engine, compared with a plain loop and with distilabel.

A server answers after a fixed delay; ideal is concurrency / delay. The engine parses, checks and
stores each answer. The plain loop calls `chat.completions.create` and `json.loads`; distilabel's
`OpenAILLM` waits for a whole batch.

The engine also computes keys, looks them up, and writes one durable record per answer; the plain
loop stores nothing. CPU is the client's time per request, all threads. psibench's values are the
best of the repeats, the others ran once. A long run at the end shows whether memory grows with the
requests.

    python bench/llm_throughput.py [--seconds 10] [--repeat 2] [--memory 100000]
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODEL = "stand-in/bench"
GOALS = {64: 96.0, 256: 93.0}
"""Concurrency -> % of the ideal rate."""
SETTINGS = ((0.5, 64), (0.5, 256), (0.05, 64), (0.05, 256))
"""Seconds until an answer, and concurrency."""
MOST_PER_S = 512
"""Most requests per second of ``--seconds``, the ideal rate of a slow server. The ideal rate of a
fast server is far above any client's, and a run would take minutes."""
MOST_KIB = 0.5
"""Bound of peak memory per request after the first tenth: a key in the store's index, no reply."""
WORDS = "the quick brown fox jumps over a lazy dog and goes home again "
ANSWER = {"query": "where does the brown fox go", "answer": 4 * WORDS}
SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["query", "answer"],
    "additionalProperties": False,
}


def prompt(number: int) -> str:
    """About 300 words, different for each number."""
    return f"{number}: " + 25 * WORDS


def serve(delay_s: float) -> None:
    """Answer every request with the same completion after a delay; print the address first."""
    from aiohttp import web

    message = {"role": "assistant", "content": json.dumps(ANSWER)}
    completion = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 330, "completion_tokens": 60, "total_tokens": 390},
    }
    body = json.dumps(completion).encode()

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(delay_s)
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def ask_with_engine(base_url: str, n_requests: int, concurrency: int, folder: Path) -> list[float]:
    """Run the engine; return peak MiB after each tenth of the requests."""
    from psibench.llm.asking import AskItem
    from psibench.llm.request import Message, Request, ResponseSchema
    from psibench.llm.run import ask_all
    from psibench.llm.sections import AskPolicy, LlmSettings

    policy = AskPolicy(concurrency=concurrency)
    settings = LlmSettings(backend="stand-in", model=MODEL, base_url=base_url, asking=policy)
    response = ResponseSchema("bench", SCHEMA)
    peaks: list[float] = []
    n_done = 0

    def items() -> Iterator[AskItem]:
        for number in range(n_requests):
            messages = (Message("user", prompt(number)),)
            yield AskItem(str(number), Request(MODEL, messages, response))

    def count(outcome: Any) -> None:
        nonlocal n_done
        n_done += outcome.status == "ok"
        if n_done % max(1, n_requests // 10) == 0:
            peaks.append(peak_mib())

    ask_all(items(), settings, store=folder, on_outcome=count)
    if n_done != n_requests:
        sys.exit(f"{n_done} of {n_requests} answered")
    return peaks


def ask_plainly(base_url: str, n_requests: int, concurrency: int, _: Path) -> list[float]:
    """Loop over one AsyncOpenAI client as in its documentation; stores nothing."""
    from openai import AsyncOpenAI

    schema = {"name": "bench", "strict": True, "schema": SCHEMA}
    response_format: Any = {"type": "json_schema", "json_schema": schema}

    async def run() -> None:
        client = AsyncOpenAI(base_url=base_url, api_key="none")
        gate = asyncio.Semaphore(concurrency)

        async def one(number: int) -> None:
            async with gate:
                reply = await client.chat.completions.create(
                    model=MODEL,
                    messages=[{"role": "user", "content": prompt(number)}],
                    response_format=response_format,
                )
                json.loads(reply.choices[0].message.content or "")

        await asyncio.gather(*(one(number) for number in range(n_requests)))
        await client.close()

    asyncio.run(run())
    return [peak_mib()]


def ask_with_distilabel(base_url: str, n_requests: int, concurrency: int, _: Path) -> list[float]:
    """Ask in batches, like a step of a distilabel pipeline; parses replies and stores nothing."""
    from distilabel.models import OpenAILLM

    llm = OpenAILLM(model=MODEL, base_url=base_url, api_key="none")
    llm.load()
    for first in range(0, n_requests, concurrency):
        some = range(first, min(first + concurrency, n_requests))
        inputs = [[{"role": "user", "content": prompt(number)}] for number in some]
        for output in llm.generate_outputs(inputs=inputs, num_generations=1):
            json.loads(output["generations"][0])
    return [peak_mib()]


CLIENTS = {
    "psibench": ask_with_engine,
    "plain AsyncOpenAI": ask_plainly,
    "distilabel": ask_with_distilabel,
}


def peak_mib() -> float:
    """Peak resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(client: str, base_url: str, n_requests: int, concurrency: int) -> dict[str, Any]:
    """Time one client in this process, after imports and connections."""
    with tempfile.TemporaryDirectory() as folder:
        CLIENTS[client](base_url, 2, 2, Path(folder) / "warm-up")
        started, cpu = time.perf_counter(), time.process_time()
        peaks = CLIENTS[client](base_url, n_requests, concurrency, Path(folder) / "store")
        seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": seconds, "cpu_s": cpu_s, "n_requests": n_requests, "peaks_mib": peaks}


def measure_in_fresh_process(
    client: str, delay_s: float, n_requests: int, concurrency: int
) -> dict[str, Any]:
    """Start a server and a client process; return the client's numbers."""
    command = [sys.executable, __file__]
    with subprocess.Popen(
        [*command, "--serve", str(delay_s)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            base_url = server.stdout.readline().strip() if server.stdout else ""
            options = [client, base_url, str(n_requests), str(concurrency)]
            done = subprocess.run(
                [*command, "--client", *options], check=True, capture_output=True, text=True
            )
        finally:
            server.kill()
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def print_throughput(seconds: float, repeat: int) -> None:
    """Print one line per client, delay and concurrency: the best of the repeats."""
    print(f"{'client':20}{'delay':>8}{'at once':>9}{'requests/s':>12}{'of ideal':>10}", end="")
    print(f"{'CPU ms':>8}{'per core':>10}{'peak MiB':>10}")
    from support.goals import tell_goal

    shares = {}
    for delay_s, concurrency in SETTINGS:
        ideal = concurrency / delay_s
        n_requests = int(min(ideal, MOST_PER_S) * seconds)
        for client in CLIENTS:
            runs = [
                measure_in_fresh_process(client, delay_s, n_requests, concurrency)
                for _ in range(repeat if client == "psibench" else 1)
            ]
            best = min(runs, key=lambda run: run["seconds"])
            rate, cpu_ms = n_requests / best["seconds"], 1000 * best["cpu_s"] / n_requests
            print(f"{client:20}{1000 * delay_s:5.0f} ms{concurrency:9}{rate:12.0f}", end="")
            print(f"{100 * rate / ideal:8.1f} %{cpu_ms:8.2f}{1000 / cpu_ms:10.0f}", end="")
            print(f"{best['peaks_mib'][-1]:10.0f}", flush=True)
            shares[client, delay_s, concurrency] = 100 * rate / ideal
    for concurrency, goal in GOALS.items():
        what = f"LLM client, {concurrency} at once, 500 ms: % of the ideal rate"
        tell_goal(what, shares["psibench", 0.5, concurrency], goal)


def print_memory(n_requests: int) -> None:
    """Print the engine's peak memory after each tenth of a long run."""
    from support.goals import tell_goal

    figures = measure_in_fresh_process("psibench", 0.02, n_requests, 256)
    peaks = figures["peaks_mib"]
    print(f"{n_requests} requests in {figures['seconds']:.0f} s; peak MiB after each tenth:")
    print(" ".join(f"{peak:.0f}" for peak in peaks))
    per_request = 1024 * (peaks[-1] - peaks[0]) / (0.9 * n_requests)
    what = (
        f"LLM client, {n_requests:,} requests: KiB of peak memory a request after the first tenth"
    )
    tell_goal(what, per_request, MOST_KIB, at_most=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="about, per measurement")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--memory", type=int, default=100_000, help="requests of the long run")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
    elif args.client:
        client, base_url, n_requests, concurrency = args.client
        print(json.dumps(measure(client, base_url, int(n_requests), int(concurrency))))
    else:
        print_throughput(args.seconds, args.repeat)
        print_memory(args.memory)


if __name__ == "__main__":
    main()
