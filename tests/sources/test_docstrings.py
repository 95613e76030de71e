from psibench.sources.python_docs import module_name, read_docstrings, source_files

SOURCE = '''"""About the module."""
raise SystemExit("this file must never run")

class Thing:
    """A thing."""

    def grow(self):
        """Grow it."""
        def inner():
            """Not shown."""

    class Part:
        """A part."""

if True:
    async def later():
        """Come later, \\d."""
'''


def test_docstrings_come_in_source_order_without_running_the_file(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    assert read_docstrings(path, "pkg.module") == [
        ("pkg.module", "About the module."),
        ("pkg.module:Thing", "A thing."),
        ("pkg.module:Thing.grow", "Grow it."),
        ("pkg.module:Thing.Part", "A part."),
        ("pkg.module:later", "Come later, \\d."),
    ]


def test_a_file_that_is_no_python_has_no_docstrings(tmp_path):
    path = tmp_path / "bad.py"
    for content in (b"def (", b"\xff\xfe\x00", b"# coding: nonsense\n"):
        path.write_bytes(content)
        assert read_docstrings(path, "bad") == []


def test_files_are_sorted_and_tests_and_third_parties_left_out(tmp_path):
    for name in (
        "b.py",
        "a/__init__.py",
        "a/c.py",
        "test/test_b.py",
        "a/tests/x.py",
        "site-packages/pip/__init__.py",
        "lib-dynload/y.py",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = [module_name(path, tmp_path) for path in source_files(tmp_path)]
    assert names == ["a", "a.c", "b"]


def test_a_missing_folder_has_no_files(tmp_path):
    assert source_files(tmp_path / "absent") == []
