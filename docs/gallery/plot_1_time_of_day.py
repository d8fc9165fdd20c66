"""
Time of day: flights on weekdays and at weekends
================================================

A time of day is an angle: midnight is where the circle closes, and a distribution on the circle knows it. Here are
27,662 departures from New York's airports in April 2013, counted by minute. A Generalised von Mises distribution of
order 6 has room for the busy hours.
"""

import matplotlib.pyplot as plt

import mgvm
from mgvm import plots
from mgvm.datasets import load_flights

flights = load_flights()
dists = {}
for name, days in (("weekdays", ~flights.weekend), ("weekends", flights.weekend)):
    angles, counts = flights.by_minute(days)
    dists[name] = mgvm.GvM.fit(angles, weights=counts, order=6)
    hours = mgvm.angles.to_hours(dists[name].modes().location)
    print(f"{name}: {counts.sum():,} flights, most of them around", ", ".join(f"{hour:.1f} h" for hour in hours))

# %%
# Areas are true: the area of a sector is the share of the flights in it, and the area within the curve is one. The
# thick arcs outside are the 50 % highest-density region: the shortest hours of the day with half of all flights.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 5.0), subplot_kw={"projection": "polar"}, layout="constrained")
for ax, (name, days) in zip(axes, (("weekdays", ~flights.weekend), ("weekends", flights.weekend)), strict=True):
    angles, counts = flights.by_minute(days)
    plots.rose(angles, ax, weights=counts, bins=96)
    plots.circular_density(dists[name], ax)
    for begin, end in dists[name].interval(0.5):
        ax.plot([begin + (end - begin) * k / 60 for k in range(61)], [0.92] * 61, color="#D55E00", linewidth=4)
    plots.dial(ax)
    ax.set_rmax(0.95)
    ax.tick_params(axis="x", pad=7)
    ax.set_yticks([])
    ax.set_title(name)
plt.show()

# %%
# The same distribution answers questions that a histogram does not: how likely is a departure between 7:00 and 8:30?

for name, dist in dists.items():
    share = dist.cdf(mgvm.angles.from_hours(8.5)) - dist.cdf(mgvm.angles.from_hours(7.0))
    print(f"{name}: {100 * share:.1f} % of the flights leave between 7:00 and 8:30")
