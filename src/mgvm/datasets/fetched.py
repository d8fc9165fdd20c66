"""Data sets that are downloaded on first use: ``fetch_*``, the data of the paper and those that peers report on."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgvm import _validation as check
from mgvm.angles import from_degrees, wrap
from mgvm.datasets.base import AtPlaces, AtTimesOfDay, CountsByMinute, Dataset, DihedralAngles, OfMarkers, read_rows
from mgvm.datasets.download import DataHome, Source, fetch_file

_, *_LISTED = read_rows((resources.files("mgvm.datasets") / "sources.csv").read_bytes())
_FOUND = (
    Source(repository, commit, path, blob, int(size) if size else None, sha256 or None)
    for repository, commit, path, blob, size, sha256 in _LISTED
)
SOURCES = {source.file: source for source in _FOUND}
"""Every file that can be fetched, by its name; of the aspartates only the git blob is known."""


def _read(file: str, data_home: DataHome, download_if_missing: bool, timeout: float) -> bytes:
    """The content of one of the files above."""
    path = fetch_file(SOURCES[file], data_home=data_home, download_if_missing=download_if_missing, timeout=timeout)
    return path.read_bytes()


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
    subset: str = "all", *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
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
    *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
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
    longitude, latitude = arrays["x_all"].T
    minute = np.rint(arrays["y_all"].ravel() * (1440 / (2 * np.pi))).astype(np.int64) % 1440
    split = np.where(np.isin(port, arrays["pid_train"]), "train", "valid")
    return ChannelTides(port, longitude, latitude, minute, split)


@dataclass(frozen=True, eq=False)
class Yeast(Dataset):
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


def fetch_yeast(*, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0) -> Yeast:
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
    header, *rows = read_rows(content)
    table = np.array(rows, dtype=np.float64)
    minutes = np.arange(0.0, 7.0 * len(table), 7.0)
    split = np.where(np.arange(len(table)) % 2 == 0, "train", "valid")
    return Yeast(minutes, np.asarray(wrap(table[:, 0])), table[:, 1:], tuple(header[1:]), split)


@dataclass(frozen=True, eq=False)
class MotionCapture(OfMarkers):
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


def fetch_mocap(
    name: str = "fishing", *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
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
    return MotionCapture(np.stack([arrays["mocap_x"], arrays["mocap_y"]], axis=-1), name)


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


def fetch_wind_germany(
    *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
) -> GermanWind:
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
    station, longitude, latitude, angles = table.T
    return GermanWind(station.astype(np.int64), longitude, latitude, np.asarray(wrap(angles)))


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


def fetch_top500(
    *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
) -> BackboneAngles:
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
    angles = np.asarray(wrap(table[:, 3:5].astype(np.float64)))
    structure, residue, fold = table.T[:3]
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
    residue: str = "CYS", *, data_home: DataHome = None, download_if_missing: bool = True, timeout: float = 30.0
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
    rows = read_rows(content)
    degrees = np.array([row[1 : 3 + n_chi] for row in rows], dtype=np.float64)
    angles = np.asarray(from_degrees(np.rint(10.0 * degrees) / 10.0))
    structure = np.array([row[0][:4] for row in rows])
    valid = [int(hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(), 16) % 5 == 0 for name in structure]
    split = np.where(valid, "valid", "train")
    return Rotamers(angles, ("phi", "psi", *(f"chi{k + 1}" for k in range(n_chi))), structure, split)
