import pytest

from psibench.errors import InputError
from psibench.translate.quality import read_human_grades

HEADER = "language,domain,doc_id,fluency,accuracy,completeness,style"
PLACES = {"languages": ["ara-Arab", "fra-Latn"], "domains": ["law", "game"]}


def write(tmp_path, *lines, name="grades.csv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_grades_are_read_with_and_without_annotators_and_other_columns_are_left_out(tmp_path):
    plain = write(tmp_path, HEADER, "fra-Latn,law,d1,5,4,3,2", name="a.csv")
    named = write(
        tmp_path, f"annotator,text,{HEADER}", 'ann,"a, b",ara-Arab,game,d1, 1 ,1,1,1', name="b.csv"
    )
    frame = read_human_grades([plain, named], **PLACES)
    assert frame.drop("path").rows() == [
        (None, "fra-Latn", "law", "d1", 5, 4, 3, 2),
        ("ann", "ara-Arab", "game", "d1", 1, 1, 1, 1),
    ]


def test_no_files_give_no_rows():
    assert read_human_grades([], **PLACES).is_empty()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER], r"grades.csv: no grades"),
        ([HEADER.removesuffix(",style"), "fra-Latn,law,d1,5,4,3"], r"line 2: no column style;"),
        ([HEADER, "fra-Latn,law,d1,5,4,3"], r"line 2: 6 columns, expected the header's 7"),
        ([HEADER, "fra-Latn,law,d1,5,4,3,6"], r"line 2: column 'style' is '6'; allowed: whole"),
        ([HEADER, "fra-Latn,law,d1,5,4,3,"], r"line 2: column 'style' is ''; allowed: whole"),
        ([HEADER, "fra-Latn,law,d1,4.5,4,3,2"], r"column 'fluency' is '4.5'; allowed: whole"),
        ([HEADER, "fra-Latn,sports,d1,5,4,3,2"], r"'domain' is 'sports'; allowed: game, law"),
        ([HEADER, "fr,law,d1,5,4,3,2"], r"'language' is 'fr'; allowed: ara-Arab, fra-Latn"),
        ([f"annotator,{HEADER}", "mean,fra-Latn,law,d1,5,4,3,2"], r"'annotator' is 'mean'"),
        (
            [HEADER, "fra-Latn,law,d1,5,4,3,2", "fra-Latn,law,d1,5,4,3,2"],
            r"line 3: document 'd1' .* same annotator in .*grades.csv, line 2",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_with_its_place(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_human_grades([write(tmp_path, *lines)], **PLACES)
