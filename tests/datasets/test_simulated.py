import numpy as np
import pytest

from mgvm.datasets import make_mexican_hat, make_robot_arm


def hat(x):
    """f(x) = 15 h(0.9 x) x² + 0.75, h a Mexican hat of width 0.15 about 0.25."""
    u = (0.9 * x - 0.25) ** 2 / 0.15**2
    return 15.0 * 2.0 / (np.sqrt(3.0 * 0.15) * np.pi**0.25) * (1.0 - u) * np.exp(-0.5 * u) * x**2 + 0.75


def test_the_toy_of_the_paper():
    toy = make_mexican_hat()
    assert toy.x.size == toy.angles.size == 14
    np.testing.assert_allclose(toy.grid, np.linspace(0.0, 1.0, 100))
    np.testing.assert_allclose(np.exp(1j * toy.truth), np.exp(1j * hat(toy.grid)), atol=1e-12)
    # What the paper's code prints, wrapped: the sixth point is 3.40 there.
    assert toy.angles[5] == pytest.approx(3.40 - 2 * np.pi)
    apart = np.angle(np.exp(1j * (toy.angles - hat(toy.x))))
    assert 0.85 < np.abs(apart).max() < 0.95


def test_drawn_points_scatter_as_they_are_told():
    toy = make_mexican_hat(20_000, noise=0.2, random_state=0)
    assert toy.x.shape == toy.angles.shape == (20_000,)
    assert ((toy.angles >= -np.pi) & (toy.angles < np.pi)).all()
    apart = np.angle(np.exp(1j * (toy.angles - hat(toy.x))))
    # The standard deviation of 20,000 normal numbers has a standard error of 0.5 %.
    assert apart.std() == pytest.approx(0.2, rel=0.03)
    np.testing.assert_array_equal(toy.angles, make_mexican_hat(20_000, noise=0.2, random_state=0).angles)


def test_markers_of_the_arm_stand_at_the_ends_of_rigid_links():
    arm = make_robot_arm(500, 3, lengths=[3.0, 2.0, 1.0], noise=0.0, random_state=1)
    markers = np.concatenate([np.zeros((500, 1, 2)), arm.rows.reshape(500, 3, 2)], axis=1)
    links = np.diff(markers, axis=1)
    np.testing.assert_allclose(np.linalg.norm(links, axis=2), [[3.0, 2.0, 1.0]] * 500, rtol=1e-12)
    np.testing.assert_allclose(np.exp(1j * np.arctan2(links[..., 1], links[..., 0])), np.exp(1j * arm.angles))
    np.testing.assert_array_equal(arm.rows, arm.clean)


def test_noise_and_concentration_of_the_arm():
    arm = make_robot_arm(5000, 2, kappa=[0.0, 50.0], noise=2.0, random_state=2)
    assert (arm.rows - arm.clean).std() == pytest.approx(2.0, rel=0.05)
    assert np.abs(np.exp(1j * arm.angles[:, 0]).mean()) < 0.08  # five standard errors of a uniform angle
    joint = arm.angles[:, 1] - arm.angles[:, 0]
    assert np.cos(joint).mean() == pytest.approx(1.0 - 1.0 / 100.0, abs=0.002)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_mexican_hat(0), "n_samples"),
        (lambda: make_mexican_hat(5, noise=-1.0), "noise must be >= 0"),
        (lambda: make_robot_arm(n_joints=0), "n_joints"),
        (lambda: make_robot_arm(10, 3, lengths=[1.0, 2.0]), r"lengths .*3 joints.*\(2,\)"),
        (lambda: make_robot_arm(10, 2, lengths=[1.0, -2.0]), "lengths must be > 0"),
        (lambda: make_robot_arm(10, 3, kappa=[1.0, 2.0]), "kappa"),
        (lambda: make_robot_arm(10, noise=np.nan), "noise"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
