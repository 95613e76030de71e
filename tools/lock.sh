#!/bin/sh
# Resolve pyproject.toml in fresh environments and write the pinned lists `make setup` installs.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python="${PYTHON:-python3}"

freeze() { # environment -> sorted pins, without psibench itself, local build tags and installers
    "$1/bin/python" -m pip freeze --exclude-editable --exclude psibench-ir --exclude pip --exclude setuptools --exclude wheel |
        sed 's/\(^torch==[0-9.]*\)+.*/\1/' | sort -f
}

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet "torch==$(sed -n 's/.*"torch==\([0-9.]*\)".*/\1/p' pyproject.toml)"
"$work/venv/bin/python" -m pip install --quiet -e '.[all,dev]'
{ echo "# Written by \`make lock\` from pyproject.toml. Do not edit."; freeze "$work/venv"; } >requirements.lock
"$work/venv/bin/python" -m pip install --quiet -c requirements.lock -e '.[all,dev,peers]'
{
    echo "# Written by \`make lock\`: packages of \`make peers\` and \`make bench\` that requirements.lock lacks."
    freeze "$work/venv" | grep -vxFf requirements.lock
} >requirements-peers.lock
"$python" tools/environments.py
"$work/venv/bin/python" -m pip install --quiet uv
{
    echo "# Written by \`make lock\`: vLLM for NVIDIA GPUs, for \`psibench vllm-env FOLDER\`. Do not edit."
    sed -n 's/^vllm==[^ ]*/&/p' src/psibench/vllm/locks/gpu.txt |
        "$work/venv/bin/uv" pip compile - --universal --python-version 3.11 --no-header --no-annotate --quiet
} >"$work/gpu.txt"
mv "$work/gpu.txt" src/psibench/vllm/locks/gpu.txt
