"""A hub on this machine: the endpoints that huggingface_hub calls to download a repository."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

DRIVER = """
import json, sys
from psibench.errors import InputError
from psibench.models.downloads import download_checkpoint
from psibench.models.manifests import manifest_name

folder, calls = sys.argv[1], json.loads(sys.argv[2])
for call in calls:
    try:
        manifest = download_checkpoint(**call)
        name = manifest_name(manifest.repo, manifest.revision, manifest.part)
        manifest.write(f"{folder}/{name}")
        print(json.dumps({"manifest": name}))
    except InputError as error:
        print(json.dumps({"error": str(error)}))
"""


def commit_of(name: str) -> str:
    """Return a commit's hash, made of a name."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


@dataclass
class FakeHub:
    """Repositories -> commits -> files, and what their branches are now.

    Attributes
    ----------
    gated, broken
        Repositories that are refused, and that fail with an error 500.
    asked
        Paths of all requests.
    """

    files: dict[str, dict[str, Mapping[str, bytes]]] = field(default_factory=dict)
    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    def push(self, repo: str, name: str, files: Mapping[str, bytes], branch: str = "main") -> str:
        """Put a commit on a branch."""
        commit = commit_of(name)
        self.files.setdefault(repo, {})[commit] = files
        self.branches.setdefault(repo, {})[branch] = commit
        return commit

    def env(self, home: Path) -> dict[str, str]:
        """Environment of a process that uses this hub, with a separate cache."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        return kept | {
            "HF_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1",
        }

    def download(
        self, home: Path, folder: Path, calls: Sequence[Mapping[str, object]], **env: str
    ) -> list[dict[str, str]]:
        """Download in a separate process; return each call's manifest name, or the error."""
        given = [{"revision": None} | dict(call) for call in calls]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, str(folder), json.dumps(given)],
            env=self.env(home) | env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve a hub on a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(path)
            status, content, headers = _reply(hub, path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _reply(hub: FakeHub, path: str) -> tuple[int, bytes, dict[str, str]]:
    parts = path.strip("/").split("/")
    is_api = parts[:2] == ["api", "models"]
    parts = parts[2:] if is_api else parts
    repo, rest = "/".join(parts[:2]), parts[2:]
    if repo not in hub.files:
        return 404, b"{}", {"X-Error-Code": "RepoNotFound"}
    if repo in hub.gated:
        return 403, b"{}", {"X-Error-Code": "GatedRepo"}
    if repo in hub.broken:
        return 500, b"out of order", {}
    wanted = rest[1] if len(rest) > 1 else "main"
    commit = hub.branches[repo].get(wanted, wanted)
    files = hub.files[repo].get(commit)
    if files is None:
        return 404, b"{}", {"X-Error-Code": "RevisionNotFound"}
    json_type = {"Content-Type": "application/json"}
    if not is_api:
        return _file(commit, "/".join(rest[2:]), files)
    if rest[:1] == ["tree"]:
        rows = [
            {"type": "file", "path": name, "size": len(data), "oid": _sha1(data)}
            for name, data in files.items()
        ]
        return 200, json.dumps(rows).encode(), json_type
    info = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
    return 200, json.dumps(info).encode(), json_type


def _file(commit: str, name: str, files: Mapping[str, bytes]) -> tuple[int, bytes, dict[str, str]]:
    if name not in files:
        return 404, b"", {"X-Error-Code": "EntryNotFound"}
    return 200, files[name], {"ETag": f'"{_sha1(files[name])}"', "X-Repo-Commit": commit}


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
