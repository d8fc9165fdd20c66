"""Data sets that are downloaded on first use: ``fetch_*``, the data of the paper and those that peers report on."""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgvm import _validation as check
from mgvm._frozen import freeze
from mgvm.angles import from_degrees, wrap
from mgvm.datasets.base import AtPlaces, AtTimesOfDay, CountsByMinute, DihedralAngles
from mgvm.datasets.download import Source, fetch_file

_PAPER = ("akwn2/mgvm-release", "68285f56dc34025ae0e3fafb206b79a13cfb6db9")
_QUASI = ("Yarden231/vMQP", "01a14be9c66694335cd006725887c9b05e83000c")
_PYRO = ("pyro-ppl/datasets", "a32915c210878a1d4a36adcdc7d3448f89d5e4ee")
_TOP8000 = ("rlabduke/reference_data", "cbe300663a2bb55015cf9e9978c720cb12dbf52f")

SOURCES = {
    source.file: source
    for source in (
        Source(
            *_PAPER,
            "cpca/data/boxing.mat",
            blob="97e41f3aa4b1fdb814e8a8fbb6a19d7bbeb1e3c0",
            size=193_787,
            sha256="aefa5624d8322b97f61921fdff3c223b80893f91ee325344fce75f6a46e8f62b",
        ),
        Source(
            *_PAPER,
            "cpca/data/fishing.mat",
            blob="b7b8e4cae51d3d3624788d8612120f8410e3287c",
            size=193_126,
            sha256="f9d256136c80d5717a7709a74d6d5a4e6467e24999d1bfd93e31dce36b9deb43",
        ),
        Source(
            *_PAPER,
            "cpca/data/robot.mat",
            blob="d647e3008f0be34b4a83d6f97a0d23f8efcfcf83",
            size=91_087,
            sha256="15663e9a674c861ce8a1f9ec259bd19aaeea90c997bbea6798498f0a18371f47",
        ),
        Source(
            *_PAPER,
            "cpca/data/running.mat",
            blob="a0aa539fad38d8e228d59bbc2b9824ba60c321ab",
            size=139_075,
            sha256="3998648585dfcda3ff6cf67dec9e68b00cf406d61f7d9cd327bfd7f02d09e4a8",
        ),
        Source(
            *_PAPER,
            "datasets/Spellman-alpha.csv",
            blob="41056143fee3423c9071c0572a712b1932b6af8d",
            size=641_814,
            sha256="910fc5df02bec9ee6d8a7ad70fbb1d36e59b77832880da05add2c4dda271fa5e",
        ),
        Source(
            *_PAPER,
            "datasets/compact_uber.mat",
            blob="d2343785b7e521b454cea027330bcb4cec6eb49a",
            size=5_898,
            sha256="e002c599c123b0a8d3bfa69149cd2ecf0a68b34a9c95db7db84a397cee9753fa",
        ),
        Source(
            *_PAPER,
            "datasets/simpletide.mat",
            blob="ff90849874f1fc69feab6ba7dd7e52e618e6641a",
            size=22_779,
            sha256="925c2d4f8772d457a47638a95a0159cde8009faa49d76a057bd36d10102a2b35",
        ),
        Source(
            *_PAPER,
            "datasets/uber_apr_2014.mat",
            blob="b5c0221473afa87115570b87fa037744bd04551d",
            size=270_144,
            sha256="364130d4fb23a10fc5b3a4dd58bbcedb5d46dae7b031bd943488a83c95582155",
        ),
        Source(
            *_QUASI,
            "data_calm.csv",
            blob="46e8cad722f34f27fd0255a096a48db68a172291",
            size=9_669,
            sha256="08789d2c7dee2ba825c2c8bceed47a8f70b0013ec4f463ed238a470bf2f8878d",
        ),
        Source(
            *_PYRO,
            "top500.txt",
            blob="82a904695b1c16a31d22862842dce831f275f727",
            size=1_394_139,
            sha256="4aa1a25d55fbe853b48716a1394aa49b0d4b3c4ff81cdc339de778669cd5ba4d",
        ),
        Source(
            *_TOP8000,
            "Top8000/Top8000_filtered_residues_rotarama/srcdata/rota8000-cys-noss.csv",
            blob="122a3763717f63e0bfbafe2555de0edf76230c62",
            size=1_239_732,
            sha256="c436d9302ead266ea41c3cd5b096359da249b988faf7afc84eec01ae4ab61d3a",
        ),
        Source(
            *_TOP8000,
            "Top8000/Top8000_filtered_residues_rotarama/srcdata/rota8000-his.csv",
            blob="74ad70d829f0cae62ddfa45415848a9ac8423bd2",
            size=3_079_508,
            sha256="6c189127a8383bc10fc1fd78c8c03e66250b8a715d24b192c00893302488d997",
        ),
        Source(
            *_TOP8000,
            "Top8000/Top8000_filtered_residues_rotarama/srcdata/rota8000-gln.csv",
            blob="88571d08306f24883399692551d7f621e003572c",
            size=3_823_939,
            sha256="778d9fd1e3e8ba01eb97bc50f0976395561664422618b13cca0a05a201242aaa",
        ),
        Source(
            *_TOP8000,
            "Top8000/Top8000_filtered_residues_rotarama/srcdata/rota8000-lys.csv",
            blob="6872d54a22518efe07a3df9933609a77f9d24f77",
            size=3_705_094,
            sha256="cbd814e6eea436adbfeb50e20eb6a0cd4d1eb1e32c37fc709c5212b57d29fa3c",
        ),
        Source(
            *_TOP8000,
            "Top8000/Top8000_filtered_residues_rotarama/srcdata/rota8000-asp.csv",
            blob="84b211537e2ba05b048c251c0f91d0f924f5525d",
        ),
    )
}
"""Every file that can be fetched, by its name; of the aspartates only the git blob is known."""


def _read(file: str, data_home: Any, download_if_missing: bool, timeout: float) -> bytes:
    """The content of one of the files above."""
    options = {"data_home": data_home, "download_if_missing": download_if_missing, "timeout": timeout}
    return fetch_file(SOURCES[file], **options).read_bytes()


def _matlab(content: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of a MATLAB file by their names."""
    from scipy.io import loadmat

    return dict(loadmat(io.BytesIO(content)))


@dataclass(frozen=True, eq=False)
class UberPickups(CountsByMinute):
    """Pick-ups counted by day and minute: `day` (of April 2014), `minute_of_day`, `count`, `split`.

    Attributes
    ----------
    split : ndarray of str, shape (n,)
        "train" or "valid", a split by day.
    """

    split: NDArray[np.str_]

    _first_weekday = 1  # 1 April 2014 was a Tuesday


def fetch_uber_pickups(
    subset: str = "all", *, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0
) -> UberPickups:
    """Download 564,516 Uber pick-ups in New York City, April 2014, counted by day and minute.

    Parameters
    ----------
    subset : {"all", "compact"}, default "all"
        "compact" for the 3,000 pick-ups, 100 a day, that the authors of the paper drew.
    data_home : path, optional
        The folder that keeps the file, see `get_data_home`.
    download_if_missing : bool, default True
        False to raise an error where the file is not in the folder.
    timeout : float, default 30
        Seconds to wait for a server that says nothing.

    Returns
    -------
    UberPickups
        Read-only arrays.

    Notes
    -----
    FiveThirtyEight obtained the records from the NYC Taxi & Limousine Commission (GitHub
    fivethirtyeight/uber-tlc-foil-response); this copy is of the release of Navarro, Frellsen & Turner (2017), GitHub
    akwn2/mgvm-release, which states no licence; the split is theirs. It encodes a time as ``minute + 1440 hour`` where
    ``minute + 60 hour`` was meant; that is undone here without loss.
    """
    check.choice(subset, "subset", ("all", "compact"))
    file = "uber_apr_2014.mat" if subset == "all" else "compact_uber.mat"
    arrays = _matlab(_read(file, data_home, download_if_missing, timeout))
    counted = [_count_by_minute(arrays[f"x_{half}"], arrays[f"y_{half}"]) for half in "tv"]
    day, minute, count = (np.concatenate(parts) for parts in zip(*counted, strict=True))
    split = np.repeat(["train", "valid"], [len(part[0]) for part in counted])
    freeze(day, minute, count, split)
    return UberPickups(day, minute, count, split)


def _count_by_minute(day: NDArray[Any], code: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
    """Day, minute of the day and count of the records; ``code`` is minute + 1440 hour."""
    hour, minute = np.divmod(code.ravel().astype(np.int64), 1440)
    when, count = np.unique(1440 * day.ravel().astype(np.int64) + 60 * hour + minute, return_counts=True)
    return when // 1440, when % 1440, count.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ChannelTides(AtPlaces, AtTimesOfDay):
    """Thirteen successive tides at each of 51 ports, one row each.

    Attributes
    ----------
    port : ndarray of int, shape (663,)
        Number of the port, 0 to 50; the source gives no names.
    longitude, latitude : ndarray, shape (663,)
        Of the port, degrees; east and north are positive.
    minute_of_day : ndarray of int, shape (663,)
        When the tide comes, 0 to 1439.
    split : ndarray of str, shape (663,)
        "train" (26 ports) or "valid" (25 ports).
    """

    port: NDArray[np.int64]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    minute_of_day: NDArray[np.int64]
    split: NDArray[np.str_]


def fetch_tides_channel(
    *, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0
) -> ChannelTides:
    """Download the time of day of 13 tides at 51 ports on the south coast of England in 2016.

    Successive tides are half a lunar day apart, so that the times at a port form two groups half a turn apart. Whether
    they are high or low water, and of which days, the source does not say.

    Parameters
    ----------
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    ChannelTides
        Read-only arrays.

    Notes
    -----
    EasyTide predictions of the UK Hydrographic Office (Crown copyright: for research), by way of the release of
    Navarro, Frellsen & Turner (2017), GitHub akwn2/mgvm-release; the split is theirs. Its radians are whole minutes of
    the day to within 2e-8 minutes, and become these again.
    """
    arrays = _matlab(_read("simpletide.mat", data_home, download_if_missing, timeout))
    port = arrays["pid_all"].ravel().astype(np.int64)
    longitude, latitude = (column.copy() for column in arrays["x_all"].T)
    minute = np.rint(arrays["y_all"].ravel() * (1440 / (2 * np.pi))).astype(np.int64) % 1440
    split = np.where(np.isin(port, arrays["pid_train"]), "train", "valid")
    freeze(port, longitude, latitude, minute, split)
    return ChannelTides(port, longitude, latitude, minute, split)


@dataclass(frozen=True, eq=False)
class Yeast:
    """Eighteen moments of a culture that divides in step, one row each.

    Attributes
    ----------
    minutes : ndarray, shape (18,)
        Time since the start.
    phase : ndarray, shape (18,)
        Of the cell cycle, radians in [-pi, pi).
    expression : ndarray, shape (18, 4489)
        Of every gene.
    genes : tuple of str
        Systematic names of the genes.
    split : ndarray of str, shape (18,)
        "train" or "valid", every other row.
    """

    minutes: NDArray[np.float64]
    phase: NDArray[np.float64]
    expression: NDArray[np.float64]
    genes: tuple[str, ...]
    split: NDArray[np.str_]


def fetch_yeast(*, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0) -> Yeast:
    """Download the phase of the cell cycle and the expression of 4,489 genes at 18 moments of a yeast culture.

    The inputs are far more than the rows.

    Parameters
    ----------
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    Yeast
        Read-only arrays.

    Notes
    -----
    Alpha-factor course of Spellman et al. (1998), Mol. Biol. Cell 9, 3273-3297, phases of Santos, Wernersson & Jensen
    (2015), Nucleic Acids Res. 43, D1140-D1144, by way of GitHub akwn2/mgvm-release, which states no licence; even rows
    are its training set. Moments are those of the experiment, every seven minutes; the file does not have them.
    """
    content = _read("Spellman-alpha.csv", data_home, download_if_missing, timeout)
    header, *rows = csv.reader(io.StringIO(content.decode("ascii")))
    table = np.array(rows, dtype=np.float64)
    minutes = np.arange(0.0, 7.0 * len(table), 7.0)
    phase, expression = np.array(wrap(table[:, 0])), table[:, 1:].copy()
    split = np.where(np.arange(len(table)) % 2 == 0, "train", "valid")
    freeze(minutes, phase, expression, split)
    return Yeast(minutes, phase, expression, tuple(header[1:]), split)


@dataclass(frozen=True, eq=False)
class MotionCapture:
    """Where three markers are in the image, one row a frame.

    Attributes
    ----------
    positions : ndarray, shape (n, 3, 2)
        x and y of every marker, pixels; the source does not say from which origin.
    name : str
        The motion: "fishing", "running", "boxing" or "robot".
    """

    positions: NDArray[np.float64]
    name: str

    @property
    def rows(self) -> NDArray[np.float64]:
        """The positions as a matrix of x1, y1, x2, y2, x3, y3, shape (n, 6)."""
        return self.positions.reshape(len(self.positions), -1)


def fetch_mocap(
    name: str = "fishing", *, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0
) -> MotionCapture:
    """Download the positions of three markers on an arm that moves.

    A person was filmed for 4,308 frames of "fishing", 3,062 of "running" and 4,266 of "boxing"; the 2,000 of "robot"
    are a noisy simulation of an arm with four joints. The second half of each film is the first one backwards, with
    marker 1 turned about the origin by -π/5 and markers 2 and 3 by π/4.

    Parameters
    ----------
    name : {"fishing", "running", "boxing", "robot"}, default "fishing"
        Which motion.
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    MotionCapture
        Read-only arrays.

    Notes
    -----
    Recorded and simulated by Navarro, Frellsen & Turner (2017), GitHub akwn2/mgvm-release, which states no licence. The
    paper's "Motion Capture" is "fishing".
    """
    check.choice(name, "name", ("fishing", "running", "boxing", "robot"))
    arrays = _matlab(_read(f"{name}.mat", data_home, download_if_missing, timeout))
    positions = np.stack([arrays["mocap_x"], arrays["mocap_y"]], axis=-1)
    freeze(positions)
    return MotionCapture(positions, name)


@dataclass(frozen=True, eq=False)
class GermanWind(AtPlaces):
    """The direction of the wind at one moment, one row a station.

    Attributes
    ----------
    station : ndarray of int, shape (260,)
        Number of the station in the network of the Deutscher Wetterdienst.
    longitude, latitude : ndarray, shape (260,)
        Degrees; east and north are positive.
    angles : ndarray, shape (260,)
        Wind direction, radians in [-pi, pi): whole tens of degrees less half a turn. Their source does not say how
        they are measured. Weather services report whence the wind comes, clockwise from north; half a turn on, it is
        where the wind goes.
    """

    station: NDArray[np.int64]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    angles: NDArray[np.float64]


def fetch_wind_germany(*, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0) -> GermanWind:
    """Download the direction of the wind at 260 German weather stations, at one moment of calm weather.

    Parameters
    ----------
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    GermanWind
        Read-only arrays.

    Notes
    -----
    Deutscher Wetterdienst (open with attribution), by way of GitHub Yarden231/vMQP, the code of Cohen et al., Bayesian
    Circular Regression with von Mises Quasi-Processes (AISTATS 2025), which states no licence. Its notebook holds out
    the rows that ``np.random.seed(18); np.random.choice(260, size=52, replace=False)`` draws.
    """
    content = _read("data_calm.csv", data_home, download_if_missing, timeout)
    table = np.loadtxt(io.BytesIO(content), delimiter=",", skiprows=1)
    station = table[:, 0].astype(np.int64)
    longitude, latitude, angles = (column.copy() for column in table.T[1:])
    angles = np.array(wrap(angles))
    freeze(station, longitude, latitude, angles)
    return GermanWind(station, longitude, latitude, angles)


@dataclass(frozen=True, eq=False)
class BackboneAngles(DihedralAngles):
    """phi and psi of residues in the order of their chains, one row each.

    Attributes
    ----------
    angles : ndarray, shape (84013, 2)
        Radians in [-pi, pi), rounded to 0.01.
    names : tuple of str
        ("phi", "psi").
    structure : ndarray of str, shape (84013,)
        Name of the chain in the file.
    residue : ndarray of str, shape (84013,)
        The amino acid, one letter.
    fold : ndarray of str, shape (84013,)
        Secondary structure, a letter of DSSP; "-" for none.
    kind : ndarray of str, shape (84013,)
        "General", "Glycine", "Proline" or "Pre-Pro" (before a proline).
    """

    residue: NDArray[np.str_]
    fold: NDArray[np.str_]
    kind: NDArray[np.str_]


def fetch_top500(*, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0) -> BackboneAngles:
    """Download phi and psi of 84,013 residues in 402 chains of high resolution: the set that papers on tori report on.

    Residues without both angles are left out.

    Parameters
    ----------
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    BackboneAngles
        Read-only arrays.

    Notes
    -----
    Top500 of the Richardson Lab, Lovell et al. (2003), Proteins 50, 437-450, by way of ``top500.txt`` of GitHub
    pyro-ppl/datasets.
    """
    content = _read("top500.txt", data_home, download_if_missing, timeout)
    residues: list[tuple[str, str, str, str, str, str]] = []
    chain = ""
    for line in content.decode("ascii").splitlines():
        if line.startswith("#"):
            chain = line[1:].strip()
        elif line.strip():
            residues.append((chain, *line.split()))  # type: ignore[arg-type]
    kind = np.array([_backbone_kind(*pair) for pair in zip(residues, [*residues[1:], None], strict=True)])
    table = np.array(residues)
    known = ~np.isin(table[:, 3:5], ("NT", "CT")).any(axis=1)
    table, kind = table[known], kind[known]
    angles = np.array(wrap(table[:, 3:5].astype(np.float64)))
    structure, residue, fold = (column.copy() for column in table.T[:3])
    freeze(angles, structure, residue, fold, kind)
    return BackboneAngles(angles, ("phi", "psi"), structure, residue, fold, kind)


def _backbone_kind(this: tuple[str, ...], following: tuple[str, ...] | None) -> str:
    """Which of the four Ramachandran plots a residue belongs to, given the next one."""
    letter = this[1]
    if letter in "GP":
        return {"G": "Glycine", "P": "Proline"}[letter]
    before_proline = following is not None and following[0] == this[0] and following[1] == "P"
    return "Pre-Pro" if before_proline else "General"


@dataclass(frozen=True, eq=False)
class Rotamers(DihedralAngles):
    """Backbone and side-chain angles of one amino acid, one row a residue.

    Attributes
    ----------
    angles : ndarray, shape (n, d)
        phi, psi, chi1, ...: radians in [-pi, pi), whole tenths of a degree.
    names : tuple of str
        What the columns are.
    structure : ndarray of str, shape (n,)
        Identifier in the Protein Data Bank.
    split : ndarray of str, shape (n,)
        "train" or "valid" (a fifth), by structure.
    """

    split: NDArray[np.str_]

    @property
    def train(self) -> NDArray[np.float64]:
        """The rows to learn from."""
        return self.angles[self.split == "train"]

    @property
    def valid(self) -> NDArray[np.float64]:
        """The rows to be scored on."""
        return self.angles[self.split == "valid"]


_ROTAMER_FILES = {
    # residue: file, number of side-chain angles that are free (the third of HIS is an end of a flat ring)
    "ASP": ("rota8000-asp.csv", 1),
    "CYS": ("rota8000-cys-noss.csv", 1),
    "GLN": ("rota8000-gln.csv", 3),
    "HIS": ("rota8000-his.csv", 2),
    "LYS": ("rota8000-lys.csv", 4),
}


def fetch_rotamers(
    residue: str = "CYS", *, data_home: Any = None, download_if_missing: bool = True, timeout: float = 30.0
) -> Rotamers:
    """Download backbone and side-chain angles of one amino acid in the Top8000 set of well-determined structures.

    Parameters
    ----------
    residue : {"ASP", "CYS", "GLN", "HIS", "LYS"}, default "CYS"
        The amino acid; of cysteines those without a disulphide bond.
    data_home, download_if_missing, timeout
        As for `fetch_uber_pickups`.

    Returns
    -------
    Rotamers
        Read-only arrays. The split is by structure: those whose identifier's MD5 is a multiple of five are "valid".

    Notes
    -----
    Top8000 filtered residues of the Richardson Lab, Duke University, GitHub rlabduke/reference_data, CC BY 4.0; cite
    Hintze, Lewis, Richardson & Richardson (2016), Proteins 84, 1177-1189. Angles are wrapped and rounded to 0.1 degree.
    """
    check.choice(residue, "residue", tuple(_ROTAMER_FILES))
    file, n_chi = _ROTAMER_FILES[residue]
    content = _read(file, data_home, download_if_missing, timeout)
    rows = list(csv.reader(io.StringIO(content.decode("ascii"))))
    degrees = np.array([row[1 : 3 + n_chi] for row in rows], dtype=np.float64)
    angles = np.array(from_degrees(np.rint(10.0 * degrees) / 10.0))
    structure = np.array([row[0][:4] for row in rows])
    valid = [int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16) % 5 == 0 for name in structure]
    split = np.where(valid, "valid", "train")
    freeze(angles, structure, split)
    return Rotamers(angles, ("phi", "psi", *(f"chi{k + 1}" for k in range(n_chi))), structure, split)
