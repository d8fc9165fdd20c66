"""Reading people's files: what is read, and what each wrong file is told."""

import builtins
import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from pandas.io import common

from mgvm.tables import TableError, find_columns, hours_of_day, numbers, read_table, reading

TEXT = "# stations\nname,lon,dir\nKiel,10.1,350\n# in between\nUlm,10.0,\nBonn,7.1,10.5\n"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".parquet"])
def test_every_format_gives_the_same_table(tmp_path, ending):
    frame = pd.DataFrame({"name": ["Kiel", "Ulm"], "dir": [350.0, np.nan]})
    path = tmp_path / f"wind{ending}"
    frame.to_parquet(path) if ending == ".parquet" else frame.to_csv(path, index=False)
    pd.testing.assert_frame_equal(read_table(path), frame, check_dtype=False)


def test_comment_lines_a_byte_order_mark_and_gaps(tmp_path):
    frame = read_table(written(tmp_path, "wind.csv", "\ufeff" + TEXT))
    assert frame["name"].tolist() == ["Kiel", "Ulm", "Bonn"]
    assert np.isnan(frame["dir"][1])


def test_a_number_sign_within_a_line_is_no_comment(tmp_path):
    assert read_table(written(tmp_path, "a.csv", "colour,x\n#fff0\nred #2,1\n"))["colour"].tolist() == ["red #2"]


def test_separator_decimal_comma_and_marks_of_missing_values(tmp_path):
    path = written(tmp_path, "german.csv", "lon;dir\n10,1;350\n9,5;-999\n")
    frame = read_table(path, separator=";", decimal=",", missing=["-999"])
    np.testing.assert_array_equal(frame["lon"], [10.1, 9.5])
    assert np.isnan(frame["dir"][1])


def test_marks_of_missing_values_in_parquet(tmp_path):
    pd.DataFrame({"dir": [10.0, -999.0], "name": ["a", "none"]}).to_parquet(tmp_path / "a.parquet")
    frame = read_table(tmp_path / "a.parquet", missing=["-999", "none"])
    assert frame.isna().to_numpy().tolist() == [[False, False], [True, True]]


def test_tabs_in_tsv_and_windows_letters(tmp_path):
    frame = read_table(written(tmp_path, "a.tsv", "Stärke\tdir\n1\t2\n".encode("cp1252")))
    assert frame.columns.tolist() == ["Stärke", "dir"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "", ["empty", "not one byte"]),
        ("a.csv", "\n \n", ["empty", "blanks"]),
        ("a.csv", "lon,dir\n", ["no rows below its header"]),
        ("a.csv", bytes(range(256)), ["no text", "binary"]),
        ("a.csv", gzip.compress(b"lon,dir\n1,2\n", mtime=0), ["binary"]),
        ("a.csv.gz", gzip.compress(b"lon,dir\n1,2\n" * 99, mtime=0)[:40], ["cannot be unpacked", "whole"]),
        ("a.csv.gz", "lon,dir\n1,2\n", ["cannot be unpacked", "ending"]),
        ("a.parquet", "lon,dir\n1,2\n", ["no Parquet file"]),
        ("a.xlsx", "lon,dir\n1,2\n", ["ends in .xlsx", "CSV", "Parquet"]),
        ("wind", "lon,dir\n1,2\n", ["no ending"]),
        ("a.csv", "lon;dir\n1;2\n", ["semicolons", "--separator ';'"]),
        ("a.csv", "lon;dir\n1,5;2\n", ["semicolons", "--decimal ,"]),
        ("a.csv", "lon\tdir\n1\t2\n", ["tabs"]),
        ("a.csv", "lon,dir\n1,5,30\n", ["row 1 has 3 fields where the header has 2", "decimal commas"]),
        ("a.csv", "lon,dir\n1,30\n1,30\n1,2,3\n", ["row 3 has 3 fields"]),
    ],
)
def test_every_wrong_file_is_told_what_is_wrong(tmp_path, name, content, words):
    path = written(tmp_path, name, content)
    with pytest.raises(TableError) as error:
        read_table(path)
    assert str(path) in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_a_missing_file_is_guessed_and_a_folder_refused(tmp_path):
    written(tmp_path, "wind.csv", TEXT)
    with pytest.raises(TableError, match="did you mean .*wind.csv"):
        read_table(tmp_path / "wnid.csv")
    with pytest.raises(TableError, match="check the name"):
        read_table(tmp_path / "deep" / "quite-different.csv")
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)


def test_parquet_without_its_package_names_it(tmp_path, monkeypatch):
    path = written(tmp_path, "a.parquet", "anything")
    plain = builtins.__import__

    def without(name, *arguments, **options):
        if name.split(".")[0] in ("pyarrow", "fastparquet"):
            raise ImportError(name)
        return plain(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(pd, "read_parquet", lambda path: __import__("pyarrow"))
    with pytest.raises(TableError, match="pip install pyarrow"):
        read_table(path)


def test_comments_mixed_columns_and_letters_in_a_file_of_many_parts(tmp_path):
    # Parts of a quarter of a megabyte are parsed one by one: "07" must not be a number in the one and text in another.
    rows = [f"{row % 360},07,Köln" for row in range(60_000)] + ["1,A7,Köln"]
    rows[30_000:30_000] = ["# in the middle"]
    text = "dir,station,place\n" + "\n".join(rows) + "\n"
    for content in (text.encode(), text.encode("cp1252")):
        frame = read_table(written(tmp_path, "long.csv", content))
        assert frame["station"].unique().tolist() == ["07", "A7"]
        assert frame["dir"].sum() == sum(row % 360 for row in range(60_000)) + 1
        assert frame["place"].unique().tolist() == ["Köln"]


def test_reading_takes_the_memory_of_its_columns(tmp_path):
    # 200,000 rows are 9 MB of text and 8 MB of numbers; the text was held three times over, by four bytes a letter.
    path = tmp_path / "long.csv"
    rng = np.random.default_rng(0)
    pd.DataFrame({name: rng.uniform(size=200_000) for name in "abc"}).to_csv(path, index=False)
    tracemalloc.start()
    read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * 3 * 8 * 200_000


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_a_small_file_that_unpacks_to_much_is_refused_before_memory_is_spent(tmp_path, ending):
    path = tmp_path / f"bomb.csv.{ending}"
    with common.get_handle(path, "wb", compression="infer", is_text=False) as handles:
        handles.handle.write(b"dir\n" + b"0\n" * 3_000_000)
    assert path.stat().st_size < 60_000
    tracemalloc.start()
    with pytest.raises(TableError, match=r"more than 1 MB once it is unpacked.*max_bytes.*--max-bytes"):
        read_table(path, max_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # what is read, and the modules that are loaded on the way
    assert len(read_table(path, max_bytes=6_000_004)) == 3_000_000


def test_parquet_is_refused_by_what_it_says_of_itself(tmp_path):
    path = tmp_path / "bomb.parquet"
    pd.DataFrame({"dir": np.zeros(1_000_000)}).to_parquet(path)
    assert path.stat().st_size < 60_000
    with pytest.raises(TableError, match="more than 1 MB"):
        read_table(path, max_bytes=1_000_000)


def test_the_limit_is_a_share_of_the_free_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_free_memory", lambda: 30)
    with pytest.raises(TableError, match="more than 0 MB"):
        read_table(written(tmp_path, "a.csv", TEXT * 9))
    monkeypatch.undo()
    assert reading._free_memory() > 10e6


def test_names_and_cells_of_megabytes_are_cut(tmp_path):
    name = "x" * 2_000_000
    with pytest.raises(
        TableError, match=r"column 2 has a name of 2,000,000 characters .*first line the header"
    ) as error:
        read_table(written(tmp_path, "a.csv", f"dir,{name}\n1,2\n"))
    assert len(str(error.value)) < 400
    with pytest.raises(TableError, match=r"150,001 columns.*observation have a line") as error:
        read_table(written(tmp_path, "a.csv", "," * 150_000 + "\n1\n"))
    for act in (
        lambda: find_columns(pd.DataFrame({name: [1.0], "dir": [2.0]}), ["dri"]),
        lambda: find_columns(pd.DataFrame({"dir": [2.0]}), [name]),
        lambda: numbers(pd.DataFrame({"dir": ["1", name]}), "dir"),
        lambda: numbers(pd.DataFrame({name: ["1", "calm"]}), name),
        lambda: numbers(pd.DataFrame({"dir": [name, "x"]}), "dir"),
        lambda: hours_of_day(pd.DataFrame({"at": [name]}), "at"),
    ):
        with pytest.raises(TableError) as error:
            act()
        assert len(str(error.value)) < 1200
