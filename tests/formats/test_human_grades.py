import pytest

from psibench.errors import InputError
from psibench.translate.quality import read_human_grades

HEADER = "language,domain,doc_id,fluency,accuracy,completeness,style"


def write(tmp_path, *lines, name="grades.csv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_grades_are_read_and_other_columns_ignored(tmp_path):
    plain = write(tmp_path, HEADER, "fra-Latn,law,d1,5,4,3,2", name="a.csv")
    named = write(tmp_path, f"text,{HEADER}", '"a, b",ara-Arab,game,d1, 1 ,1,1,1', name="b.csv")
    assert read_human_grades([plain, named]).drop("path").rows() == [
        ("fra-Latn", "law", "d1", 5, 4, 3, 2),
        ("ara-Arab", "game", "d1", 1, 1, 1, 1),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HEADER], r"grades.csv: no grades"),
        ([HEADER, "fra-Latn,law,d1,5,4,3,6"], r"line 2 .*\n  style: found '6'"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        read_human_grades([write(tmp_path, *lines)])
