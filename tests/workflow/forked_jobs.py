"""Jobs of a run, forked from a process that has already imported common modules.

Starting Python and importing polars, pyarrow and pydantic takes half of a tiny job's time. A forked
job gets the same script, folder, environment and streams that Snakemake would give to a new
process; it imports its other modules itself. Jobs start as new processes in `tests/slurm`, in the
tests of killed runs and in the embedded default.
"""

import atexit
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from typing import NoReturn

from snakemake.benchmark import benchmarked
from snakemake.script import PythonScript

MOST_BYTES = 1 << 17
"""Largest size of a request: the name of a script and the environment."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def fork_jobs() -> None:
    """Fork all scripts that this process runs from now on; it must not have threads yet."""
    client, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        client.close()
        _serve(server)
    server.close()

    def execute_script(script: PythonScript, fname: str, edit: bool = False) -> None:
        environment = os.environ | dict.fromkeys(THREADS, str(script.threads))
        if temporary := script.resources.get("tmpdir"):
            environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary)
        here, there = socket.socketpair()
        with here, here.makefile("r") as answers:
            with there:
                request = pickle.dumps((fname, os.getcwd(), environment))
                socket.send_fds(client, [request], [there.fileno()])
            with benchmarked(int(answers.readline()), script.bench_record):
                here.sendall(b"go")
                status = int(answers.readline())
        if status:
            raise subprocess.CalledProcessError(status, fname)

    PythonScript.execute_script = execute_script


def _serve(server: socket.socket) -> NoReturn:
    """Fork a process per request until the client closes the socket."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of the processes that run jobs
    while True:
        request, given, *_ = socket.recv_fds(server, MOST_BYTES, 1)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            server.close()
            _run(socket.socket(fileno=given[0]), *pickle.loads(request))
        os.close(given[0])


def _run(asker: socket.socket, fname: str, folder: str, environment: dict[str, str]) -> NoReturn:
    """Fork a job, send its process id, let it start, and send its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    begin, go = os.pipe()
    job = os.fork()
    if job == 0:
        os.close(go)
        asker.close()
        os.read(begin, 1)
        _be(fname, folder, environment)
    asker.sendall(f"{job}\n".encode())
    asker.recv(2)
    os.close(go)
    status = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    asker.sendall(f"{status}\n".encode())
    os._exit(0)


def _be(fname: str, folder: str, environment: dict[str, str]) -> NoReturn:
    """Become a process `python fname` that was started in a folder."""
    atexit._clear()  # drops the handlers of the parent process
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [fname]
    status = 0
    try:
        runpy.run_path(fname, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
