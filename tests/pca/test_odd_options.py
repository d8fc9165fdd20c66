"""Options of circular PCA and trees that cannot be honoured, and trees of any scale."""

import numpy as np
import pytest

from mgvm import CircularPCA
from mgvm.pca import KinematicTree


def arms(scale: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    first, second = rng.uniform(-np.pi, np.pi, (2, 120))
    rows = np.column_stack([np.cos(first), np.sin(first), 0.7 * np.cos(second), 0.7 * np.sin(second)])
    return scale * (rows + 0.05 * rng.normal(size=rows.shape))


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e-10, 1e80, 1e150])
def test_trees_are_found_at_any_scale(scale):
    # Fourth powers of lengths leave the doubles beyond 1e77.
    tree, same = (KinematicTree.from_data(arms(size), 2) for size in (scale, 1.0))
    assert (tree.parents, tree.fixed) == (same.parents, same.fixed)
    assert tree.is_rigid(arms(scale)) == tree.is_rigid(arms())
    # W of rows of this scale: the rows are rounded, and W with them, by what 120 of them add up to.
    np.testing.assert_allclose(tree.start(arms(scale)) / scale, tree.start(arms()), rtol=1e-9, atol=1e-9)
    model = CircularPCA(2, structure="tree", random_state=0).fit(arms(scale))
    assert model.structure_.tree == same


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parents": [-1.5]}, TypeError, r"parents\[0\] must be an integer, got float -1.5"),
        ({"parents": [-1], "hidden": [0.5]}, TypeError, r"hidden\[0\] must be an integer"),
        ({"parents": 0}, TypeError, "parents must have a whole number for each marker"),
        ({"parents": [-1], "hidden": 1}, TypeError, "hidden must have a whole number for each marker"),
        ({"parents": [-1], "dimension": 2.0}, TypeError, "dimension must be an integer, got float 2.0"),
        ({"parents": [-1], "dimension": 4}, ValueError, "dimension must be 2 or 3, got 4"),
    ],
)
def test_trees_of_other_than_whole_numbers_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        KinematicTree(**options)


def test_rows_of_a_tree_are_checked():
    tree = KinematicTree([-1, -1])
    for ask in (tree.start, tree.is_rigid):
        with pytest.raises(ValueError, match=r"Y must have shape \(n, 4\)"):
            ask(arms()[:, :3])
    with pytest.raises(ValueError, match="Y must be finite or NaN, got inf"):
        KinematicTree.from_data(np.full((9, 4), np.inf), 2)
    with pytest.raises(ValueError, match="a tree needs 2 columns a marker"):
        KinematicTree.from_data(arms()[:, :0], 2)
    with pytest.raises(ValueError, match="dimension must be 2 or 3, got 0"):
        KinematicTree.from_data(arms(), 2, dimension=0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"verbose": None}, TypeError, "verbose must be an integer"),
        ({"max_iter": None, "prior": "auto"}, TypeError, "max_iter must be an integer"),
        ({"structure": [[True], [True, False]]}, ValueError, "a mask must be a Boolean array"),
        ({"background": np.array([0.1, 0.2]), "prior": "kernel"}, ValueError, "background must be a single number"),
    ],
)
def test_options_of_a_wrong_kind_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        CircularPCA(1, random_state=0, **options).fit(arms())
