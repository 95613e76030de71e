"""Behaves like `vllm serve`, without a model: python fake_vllm.py MODEL --host H --port P ...

Takes the arguments of `vllm serve` that psibench gives, and --fake-* ones that make it misbehave.
Its replies follow the schema of the request, with the first value allowed for every field.
Like vLLM it takes the port first, and shares it with whoever does so too (SO_REUSEPORT), loads for
a while, and listens only then; starts a worker
process that does not end with it; and asks for a key if VLLM_API_KEY is set.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from aiohttp import web

WORKER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--revision")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name")
    parser.add_argument("--fake-load-s", type=float, default=0.0, help="until it listens")
    parser.add_argument("--fake-fail", default="", help="end with status 3 and these words")
    parser.add_argument("--fake-noise-mb", type=int, default=0, help="prints so much first")
    parser.add_argument("--fake-delay-s", type=float, default=0.0, help="of each reply")
    parser.add_argument("--fake-die-after", type=int, default=0, help="replies until it crashes")
    parser.add_argument("--fake-deaf", action="store_true", help="ignores SIGTERM")
    parser.add_argument("--fake-pids", type=Path, help="file for its and its worker's process ids")
    parser.add_argument("--fake-own-session", action="store_true", help="of the worker")
    return parser.parse_args()


def start_worker(args: argparse.Namespace) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-S", "-c", WORKER], start_new_session=args.fake_own_session
    )
    written = args.fake_pids.with_suffix(".tmp")
    written.write_text(f"{os.getpid()} {worker.pid}")
    written.rename(args.fake_pids)


def refusal(status: int, words: str) -> web.Response:
    return web.json_response({"error": {"message": words, "code": status}}, status=status)


def application(args: argparse.Namespace) -> web.Application:
    name, key = args.served_model_name or args.model, os.environ.get("VLLM_API_KEY")
    n_replies = 0

    @web.middleware
    async def check_key(request: web.Request, handler: Any) -> web.StreamResponse:
        wanted = f"Bearer {key}"
        if (
            key
            and request.path.startswith("/v1")
            and wanted != request.headers.get("Authorization")
        ):
            return refusal(401, "Unauthorized")
        return await handler(request)

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"}]})

    async def chat(request: web.Request) -> web.Response:
        nonlocal n_replies
        asked = await request.json()
        if asked["model"] != name:
            return refusal(404, f"The model `{asked['model']}` does not exist.")
        if args.fake_die_after and n_replies >= args.fake_die_after:
            print("EngineDeadError: CUDA error: device-side assert triggered", flush=True)
            os._exit(1)
        n_replies += 1
        await asyncio.sleep(args.fake_delay_s)
        properties = asked["response_format"]["json_schema"]["schema"]["properties"]
        text = json.dumps({field: schema["enum"][0] for field, schema in properties.items()})
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 20, "completion_tokens": 5}
        return web.json_response({"model": name, "choices": [choice], "usage": usage})

    app = web.Application(client_max_size=1 << 28, middlewares=[check_key])
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/chat/completions", chat)
    return app


async def serve(args: argparse.Namespace, sock: socket.socket) -> None:
    over = asyncio.Event()
    if not args.fake_deaf:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    runner = web.AppRunner(application(args), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    await over.wait()
    await runner.cleanup()


def main() -> None:
    args = arguments()
    if args.fake_deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("command:", *sys.argv[1:])
    print("x" * 1_000_000 * args.fake_noise_mb, flush=True)
    if args.fake_fail:
        sys.stderr.write(args.fake_fail + "\n")
        sys.exit(3)
    sock = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        sock.setsockopt(socket.SOL_SOCKET, option, 1)
    sock.bind((args.host, args.port))
    if args.fake_pids:
        start_worker(args)
    time.sleep(args.fake_load_s)
    asyncio.run(serve(args, sock))


if __name__ == "__main__":
    main()
