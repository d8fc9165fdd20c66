"""Files that are no saved models, or no longer, are refused with a message that says what they are."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from saving.models import LINE, ON_LINE, gp
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import PairwiseKernel

import mgvm
from mgvm.regression import CircularStackingRegressor
from mgvm.saving import ModelFileError, container, load, notes_of, save


@pytest.fixture
def path(tmp_path):
    return save(mgvm.GvM([[2.0, 1.0j], [0.5, 0.1]]), tmp_path / "model.mgvm", notes={"unit": "hours"})


def forged(path, change=lambda description: None, arrays=None):
    """A file with a seal that fits, whose description was changed."""
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read(container.DESCRIPTION))
        kept = [np.load(io.BytesIO(archive.read(name))) for name in archive.namelist()[1:]]
    change(description)
    with path.open("w+b") as file:
        container.write(file, description, kept if arrays is None else arrays)
    return path


def sealed(path, data):
    """A file of any archive with a seal that fits."""
    buffer = io.BytesIO(data + b"0" * 64)
    path.write_bytes(data + container._digest(buffer).encode())
    return path


def test_any_changed_byte_is_found(path):
    whole = path.read_bytes()
    for place in [*range(0, len(whole), 7), *range(len(whole) - 70, len(whole))]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ModelFileError):
            load(path)
    path.write_bytes(whole)
    assert load(path).order == 2


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_cut_short_says_so(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    for read in (load, notes_of):
        with pytest.raises(ModelFileError, match="changed or cut short.*checksum.*save the model again"):
            read(path)


def test_bytes_behind_the_end_are_found(path):
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ModelFileError, match="changed or cut short"):
        load(path)


def test_an_empty_file(path):
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="is empty"):
        load(path)


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_is_never_read(path, protocol):
    path.write_bytes(pickle.dumps(mgvm.VonMises(0.0, 1.0), protocol=protocol))
    with pytest.raises(ModelFileError, match="looks like a pickle, which could run any program"):
        load(path)


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"PK\x03\x04", b"x" * 1000])
def test_other_files(path, data):
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="is no model saved by mgvm|cut short"):
        load(path)


def test_another_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelFileError, match="is no model saved by mgvm"):
        load(path)


def test_a_folder_and_no_file(tmp_path):
    for read in (load, notes_of):
        with pytest.raises(IsADirectoryError, match="is a folder"):
            read(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            read(tmp_path / "nothing")


def test_a_newer_format_asks_for_an_update(path):
    forged(path, lambda description: description.update(format=container.FORMAT + 1, mgvm="9.0"))
    with pytest.raises(ModelFileError, match=r"mgvm 9\.0 in format 3.*update mgvm"):
        load(path)


def test_an_older_format_asks_for_a_new_fit(path):
    forged(path, lambda description: description.update(format=1, mgvm="0.1"))
    with pytest.raises(ModelFileError, match=r"saved by mgvm 0\.1 in format 1.*fit the model and save it again"):
        load(path)


@pytest.mark.parametrize("name", ["subprocess.Popen", "os.system", "GvMRegressor2", None])
def test_a_foreign_class_is_refused(path, name):
    forged(path, lambda description: description["nodes"][-1].update({"class": name}))
    with pytest.raises(ModelFileError, match="which is none that mgvm.load rebuilds"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(format="one"),
        lambda d: d.update(nodes=None),
        lambda d: d.update(model={"node": 99}),
        lambda d: d.update(model={"node": -1}),
        lambda d: d["nodes"][0].update(member=7),
        lambda d: d["nodes"][0].update(kind="function"),
        lambda d: d["nodes"][-1].update(arguments={"eta": {"node": 5}}),
        lambda d: d["nodes"][-1].update(arguments={"eta": {"numpy": "O", "value": 1}}),
        lambda d: d["nodes"][-1].update(arguments={"eta": "text"}),
        lambda d: d["nodes"][-1].update(arguments={"eta": {"complex": [10**400, 0]}}),
        lambda d: d["nodes"].insert(0, []),
    ],
)
def test_descriptions_that_do_not_hold_together(path, change):
    forged(path, change)
    with pytest.raises(ModelFileError, match="does not hold together"):
        load(path)


def test_arguments_of_another_version(path):
    forged(path, lambda description: description["nodes"][-1]["arguments"].update(zeta=1))
    with pytest.raises(
        ModelFileError, match=r"saved by mgvm .* GvM had other arguments \(zeta\); load it with that version"
    ):
        load(path)


@pytest.mark.parametrize("name", ["predict", "__class__", "get_params", "_distributions", "verbose2"])
def test_attributes_that_no_fit_makes(tmp_path, name):
    path = save(gp().fit(LINE, ON_LINE), tmp_path / "model")
    forged(path, lambda description: description["nodes"][-1]["fitted"].update({name: 1}))
    with pytest.raises(ModelFileError, match="that no fit makes"):
        load(path)


def test_parameters_of_distributions_are_checked_again(path):
    forged(path, arrays=[np.array([[np.nan + 1j]])])
    with pytest.raises(ModelFileError, match="eta must be finite"):
        load(path)


def test_a_compressed_member_is_refused_unread(path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"0" * 64
        archive.writestr(zipfile.ZipInfo(container.DESCRIPTION), json.dumps({"format": container.FORMAT}))
        archive.writestr("arrays/0.npy", b"\0" * 10_000_000)
    assert len(buffer.getvalue()) < 20_000
    with pytest.raises(ModelFileError, match="compressed arrays/0.npy"):
        load(sealed(path, buffer.getvalue()[:-64]))


def test_an_array_that_claims_more_than_there_is(path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = b"0" * 64
        description = {"format": container.FORMAT, "model": {"node": 0}, "nodes": [{"kind": "array", "member": 0}]}
        archive.writestr(zipfile.ZipInfo(container.DESCRIPTION), json.dumps(description))
        archive.writestr("arrays/0.npy", header.getvalue() + bytes(80))
    with pytest.raises(ModelFileError, match=r"an array of shape \(1000000000000000,\) in 80 bytes"):
        load(sealed(path, buffer.getvalue()[:-64]))


def test_a_member_that_claims_more_than_the_file_holds(path):
    whole = bytearray(path.read_bytes()[:-64])
    for offset in (20, 24):  # compressed and full size of the last member, in the table at the end
        place = whole.rindex(b"PK\x01\x02") + offset
        whole[place : place + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(ModelFileError, match="claims to hold more than|does not hold together"):
        load(sealed(path, bytes(whole)))


# ---- what cannot be saved -------------------------------------------------------------------------------------------


def test_existing_files_need_force(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="exists already.*force=True"):
        save(mgvm.VonMises(0.0, 1.0), path)
    assert path.read_bytes() == before
    save(mgvm.VonMises(0.0, 1.0), path, force=True)
    assert isinstance(load(path), mgvm.VonMises)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(mgvm.VonMises(0.0, 1.0), tmp_path, force=True)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(mgvm.VonMises(0.0, 1.0), tmp_path / "no" / "file")


def test_a_failing_save_leaves_nothing(path, monkeypatch):
    before = path.read_bytes()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np.lib.format, "write_array", stop)
    with pytest.raises(KeyboardInterrupt):
        save(mgvm.GvM([[2.0, 1.0j]]), path, force=True)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


class Foreign(BaseEstimator):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3.0, "a float cannot be saved; mgvm.save takes distributions"),
        ("wind.mgvm", r"the first argument .* got 'wind.mgvm'; write mgvm.save\(model, path\)"),
        (Path("wind.mgvm"), r"write mgvm.save\(model, path\), model first"),
        (Foreign(), "a Foreign cannot be saved"),
        (gp(random_state=np.random.default_rng(0)), "random_state is a Generator.*integer seed"),
        (gp(kernel=PairwiseKernel(metric=np.dot)), "metric is a|metric is the function"),
        (CircularStackingRegressor([("a", Foreign())]), r"estimators\[0\]\[1\] is a Foreign, which cannot be saved"),
    ],
)
def test_what_cannot_be_saved(tmp_path, model, message):
    with pytest.raises(TypeError, match=message):
        save(model, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
