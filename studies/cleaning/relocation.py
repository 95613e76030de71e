"""Whether evidence is found again in a translation by the lengths of sentences alone.

    python studies/cleaning/relocation.py FOLDER [--out DIR]

FOLDER holds XQuAD in English, Spanish, Arabic and Chinese. The same answers are marked in all of
them: a span located in a translation is right if the translated answer stands in it whole.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from xquad_texts import Paragraph, read_paragraphs

from psibench.translate.relocate import Alignment, align_texts, locate_span

sys.path.append(str(Path(__file__).parents[1] / "filters"))

from printed import Page, share

LANGUAGES = ("spa-Latn", "ara-Arab", "cmn-Hans")
SIZES = (1, 6, 12)
SEED = 42
Span = tuple[int, int]


def joined(paragraphs: Sequence[Paragraph]) -> tuple[str, list[Span]]:
    """Join paragraphs to one text; give it and the spans of all answers in it."""
    text, spans = "", []
    for paragraph in paragraphs:
        start = len(text)
        spans += [(start + q.span[0], start + q.span[1]) for q in paragraph.questions]
        text += paragraph.text + " "
    return text.strip(), spans


def holds(found: Span, answer: Span) -> bool:
    """Say whether a span holds another whole."""
    return found[0] <= answer[0] and answer[1] <= found[1]


def measure(pairs: Sequence[tuple[Sequence[Paragraph], Sequence[Paragraph]]]) -> tuple[object, ...]:
    """Locate all answers: how many are located, and right; share of the text; milliseconds."""
    ratio = float(np.median([len(joined(b)[0]) / len(joined(a)[0]) for a, b in pairs]))
    n, right, shares, times = 0, 0, [], []
    for source, target in pairs:
        (text, spans), (translated, answers) = joined(source), joined(target)
        start = time.perf_counter()
        aligned = align_texts(text, translated, ratio=ratio)
        times.append(time.perf_counter() - start)
        for span, answer in zip(spans, answers, strict=True):
            found, n = locate_span(aligned, span).span, n + 1
            if found is not None:
                right += holds(found, answer)
                shares.append((found[1] - found[0]) / len(translated))
    return (
        share(len(shares), n),
        share(right, len(shares)),
        f"{np.mean(shares):.2f}",
        f"{1000 * float(np.median(times)):.1f}",
    )


def omit(
    pairs: Sequence[tuple[Sequence[Paragraph], Sequence[Paragraph]]], rng: random.Random
) -> tuple[str, str]:
    """Leave one sentence out of each translation: whether that is told, and others are right.

    Returns
    -------
    share of the sentences left out that are not located anywhere; share of the spans of five other
    sentences, where located, that hold what is located without the omission.
    """
    ratio = float(np.median([len(joined(b)[0]) / len(joined(a)[0]) for a, b in pairs]))
    told, right, n_others = 0, 0, 0
    for source, target in pairs:
        text, translated = joined(source)[0], joined(target)[0]
        whole = align_texts(text, translated, ratio=ratio)
        alone = _single(whole)
        left_out, *others = rng.sample(alone, min(6, len(alone)))
        start, end = whole.target[left_out[1]]
        aligned = align_texts(text, translated[:start] + translated[end:], ratio=ratio)
        told += locate_span(aligned, whole.source[left_out[0]]).span is None
        for sentence, counterpart in others:
            low, high = whole.target[counterpart]
            shift = end - start if low > start else 0
            found = locate_span(aligned, whole.source[sentence]).span
            if found is not None:
                n_others += 1
                right += holds(found, (low - shift, high - shift))
    return share(told, len(pairs)), share(right, n_others)


def mismatched(
    pairs: Sequence[tuple[Sequence[Paragraph], Sequence[Paragraph]]],
) -> str:
    """Align every text with the translation of the next: the share that is refused."""
    ratio = float(np.median([len(joined(b)[0]) / len(joined(a)[0]) for a, b in pairs]))
    texts = [joined(source)[0] for source, _ in pairs]
    others = [joined(target)[0] for _, target in pairs]
    refused = [
        bool(align_texts(text, other, ratio=ratio).reason)
        for text, other in zip(texts, [*others[1:], others[0]], strict=True)
    ]
    return share(sum(refused), len(refused))


def _single(alignment: Alignment) -> list[tuple[int, int]]:
    """List the sentences that align one for one."""
    return [
        (bead.source[0], bead.target[0])
        for bead in alignment.beads
        if bead.source[1] - bead.source[0] == 1 == bead.target[1] - bead.target[0]
    ]


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="folder to write the tables to")
    options = parser.parse_args()
    page = Page("relocation", options.out)
    english = read_paragraphs(options.folder, "eng-Latn")
    page.text(
        "English to each language; texts of 1, 6 and 12 paragraphs (about 130, 800 and 1,500 "
        "words). Right: the translated answer stands whole in what was located."
    )
    rows, omitted = [], []
    for language in LANGUAGES:
        other = read_paragraphs(options.folder, language)
        for size in SIZES:
            groups = [slice(start, start + size) for start in range(0, len(english), size)]
            pairs = [(english[group], other[group]) for group in groups]
            rows.append((f"{language}, {size}", *measure(pairs)))
            if size == 6:
                omitted.append((language, *omit(pairs, random.Random(SEED)), mismatched(pairs)))
    columns = ("translated to, paragraphs", "located", "right", "share of the text", "ms per text")
    page.table(columns, rows)
    page.text(
        "Texts of 6 paragraphs, each translation without one of its sentences; and each text "
        "against the translation of another:"
    )
    columns = ("translated to", "left out, told so", "others right", "other text refused")
    page.table(columns, omitted)
    page.write()


if __name__ == "__main__":
    main()
