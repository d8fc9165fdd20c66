"""Options of mixtures that cannot be honoured are refused by name."""

import numpy as np
import pytest

from mgvm import TorusMixture

ROWS = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ridge": np.ones(2)}, ValueError, "ridge must be a single number"),
        ({"pseudo_count": np.ones(2)}, ValueError, "pseudo_count must be a single number"),
        (
            {"angle_order": 1, "component": "directed"},
            TypeError,
            "angle_order must be a sequence of the columns 0 to 1",
        ),
        ({"verbose": "yes"}, TypeError, "verbose must be an integer"),
        ({"n_components": "auto", "validation_fraction": 0.999}, ValueError, "leaves none of 40 rows to learn from"),
    ],
)
def test_options_of_a_wrong_kind_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        TorusMixture(**options).fit(ROWS)


@pytest.mark.parametrize("component", ["directed", "von_mises", "mgvm", "wrapped_normal"])
def test_weights_that_count_no_rows_are_refused(component):
    # They made directed components climb for ever.
    with pytest.raises(ValueError, match="sample_weight sums to .* scale the weights to a mean of 1"):
        TorusMixture(2, component=component, random_state=0).fit(ROWS, sample_weight=np.full(40, 5e-324))


def test_units_in_an_array_are_refused():
    with pytest.raises(ValueError, match="unit must be one of 'radians', .* got ndarray"):
        TorusMixture(1, unit=np.array(["degrees", "hours"])).fit(ROWS)


def test_a_warm_start_needs_the_columns_of_the_last_fit():
    model = TorusMixture(2, warm_start=True, random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match="X has 1 features, but TorusMixture is expecting 2"):
        model.fit(ROWS[:, :1])
