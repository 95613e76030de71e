"""`psibench export`: a benchmark's tables in the layout of MTEB, BEIR, TREC or PosIR's release."""

import argparse
import tempfile
from pathlib import Path

from psibench.errors import InputError
from psibench.formats.built import find_datasets, prefixed_domains
from psibench.publish.card import Licence, card_text, count_datasets, lost_positions
from psibench.publish.layouts import LAYOUTS, Export
from psibench.publish.mteb import EVAL_YAML, eval_yaml
from psibench.tables import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench export`."""
    parser.add_argument(
        "benchmark", type=Path, metavar="RESULTS/BENCHMARK", help="e.g. results/python-docs"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="new or empty folder")
    parser.add_argument("--layout", choices=LAYOUTS, default="posir", help="default: posir")
    parser.add_argument(
        "--licence",
        required=True,
        metavar="ID",
        help="licence of the texts, in the hub's spelling: cc-by-4.0, apache-2.0, ...; other (with "
        "--licence-link); unknown",
    )
    parser.add_argument("--licence-link", metavar="URL", help="address of the licence text")
    parser.add_argument(
        "--languages", type=_names, metavar="A,B", help="default: all languages with tables"
    )
    parser.add_argument(
        "--domains", type=_names, metavar="X,Y", help="default: all domains with tables"
    )
    parser.add_argument(
        "--extra",
        action="store_true",
        help="posir: also write columns that the layout lacks",
    )


def run(args: argparse.Namespace) -> None:
    """Write all tables, a README.md and, for MTEB, an eval.yaml; on an error write nothing."""
    licence = Licence(args.licence, args.licence_link)
    if args.extra and args.layout != "posir":
        raise InputError(f"--extra does not apply to the layout {args.layout}; leave it out")
    datasets = find_datasets(args.benchmark, languages=args.languages, domains=args.domains)
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise InputError(f"{args.out} exists and is not empty; name a new folder, or remove it")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out.parent, prefix=f".{args.out.name}.") as made:
        temporary = Path(made)
        stripped = frozenset(prefixed_domains(datasets) if args.layout == "posir" else ())
        planned = Export(args.benchmark, temporary, tuple(datasets), stripped, args.extra)
        written = LAYOUTS[args.layout](planned)
        counts, name = count_datasets(datasets), args.benchmark.resolve().name
        lost = "" if args.layout != "posir" or args.extra else lost_positions(counts)
        card = card_text(
            *(name, datasets, counts, written), layout=args.layout, licence=licence, lost=lost
        )
        write_text(card, temporary / "README.md")
        if args.layout == "mteb":
            write_text(eval_yaml(name, written), temporary / EVAL_YAML)
        temporary.chmod(0o755)
        if args.out.exists():
            args.out.rmdir()
        temporary.replace(args.out)
    if lost:
        print(f"warning: {lost}")
    queries = counts["queries"].sum()
    kinds = "dataset" if len(datasets) == 1 else "datasets"
    print(f"{len(datasets)} {kinds}, {queries:,} queries written to {args.out}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("give names separated by commas, e.g. eng-Latn,ara-Arab")
    return names


DESCRIPTION = (
    "Write the tables of results/BENCHMARK/data in a layout of other programs, with a card "
    "(README.md). posir: OUT/LANG/DOMAIN/{corpus,queries,qrels}/test.parquet, which `recipe: "
    "posir_release` can read. mteb: configs NAME-corpus, NAME-queries, NAME-qrels, and eval.yaml, "
    "which lets the hub accept results. beir: OUT/NAME/corpus.jsonl, queries.jsonl, "
    "qrels/test.tsv. trec: OUT/NAME/topics.tsv, qrels.trec, runs/MODEL.trec. NAME is LANG, or "
    "LANG-DOMAIN with several domains. docs/publish.md shows how to load each layout."
)
