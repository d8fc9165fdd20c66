"""
Time of day: rides on weekdays and at weekends
==============================================

A time of day is an angle: midnight is where the circle closes, and a law on the circle knows it. Here are 564,516 rides
in New York City, counted by minute. A Generalised von Mises law of order 6 has room for the rush hours.
"""

import matplotlib.pyplot as plt

import mgvm
from mgvm import plots
from mgvm.datasets import load_uber_pickups

rides = load_uber_pickups()
laws = {}
for name, days in (("weekdays", ~rides.weekend), ("weekends", rides.weekend)):
    angles, counts = rides.by_minute(days)
    laws[name] = mgvm.GvM.fit(angles, weights=counts, order=6)
    hours = mgvm.angles.to_hours(laws[name].modes().location)
    print(f"{name}: {counts.sum():,} rides, most of them around", ", ".join(f"{hour:.1f} h" for hour in hours))

# %%
# Areas are true: the area of a sector is the share of the rides in it, and the area within the curve is one. The thick
# arc outside is the shortest stretch of the day that holds half of all rides.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 5.0), subplot_kw={"projection": "polar"}, layout="constrained")
for ax, (name, days) in zip(axes, (("weekdays", ~rides.weekend), ("weekends", rides.weekend)), strict=True):
    angles, counts = rides.by_minute(days)
    plots.rose(angles, ax, weights=counts, bins=96)
    plots.circular_density(laws[name], ax)
    for begin, end in laws[name].interval(0.5):
        ax.plot([begin + (end - begin) * k / 60 for k in range(61)], [0.92] * 61, color="#D55E00", linewidth=4)
    plots.dial(ax)
    ax.set_rmax(0.95)
    ax.tick_params(axis="x", pad=7)
    ax.set_yticks([])
    ax.set_title(name)
plt.show()

# %%
# The same law answers questions that a histogram does not: how likely is a ride between two and four at night?

for name, law in laws.items():
    share = law.cdf(mgvm.angles.from_hours(4.0)) - law.cdf(mgvm.angles.from_hours(2.0))
    print(f"{name}: {100 * share:.1f} % of the rides begin between 2:00 and 4:00")
