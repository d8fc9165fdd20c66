"""
Time of day: flights on weekdays and at weekends
================================================

A time of day is an angle: midnight is where the circle closes, and a distribution on the circle knows it. Here are
27,662 departures from New York's airports in April 2013, counted by minute. Which distribution describes them?
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_flights

flights = load_flights()
days = {"weekdays": ~flights.weekend, "weekends": flights.weekend}

# %%
# Fits by maximum likelihood, with the counts as weights. A Generalised von Mises distribution (GvM) of order T has T
# harmonics, two parameters each. BIC, p log n - 2 log L, weighs the likelihood against the number of parameters p.

fits, best = {}, {}
for group, rows in days.items():
    angles, counts = flights.by_minute(rows)
    fits[group] = {
        "von Mises": (mgvm.VonMises.fit(angles, weights=counts), 2),
        "wrapped normal": (mgvm.WrappedNormal.fit(angles, weights=counts), 2),
        "projected normal": (mgvm.ProjectedNormal.fit(angles, weights=counts), 4),
    }
    for order in range(1, 9):
        fits[group][f"GvM, order {order}"] = (mgvm.GvM.fit(angles, weights=counts, order=order), 2 * order)
    bic = {
        name: n_parameters * np.log(counts.sum()) - 2.0 * counts @ dist.logpdf(angles)
        for name, (dist, n_parameters) in fits[group].items()
    }
    best[group] = min(bic, key=bic.get)
    print(f"{group.capitalize()}, {counts.sum():,} flights")
    print(f"  {'distribution':<18}{'parameters':>10}{'log-likelihood per flight':>28}{'BIC':>14}")
    for name, (dist, n_parameters) in fits[group].items():
        mean = counts @ dist.logpdf(angles) / counts.sum()
        mark = " *" if name == best[group] else ""
        print(f"  {name:<18}{n_parameters:>10}{mean:>28.4f}{bic[name]:>14,.1f}{mark}")
print("* the smallest. Nats, density per radian; the uniform distribution has -1.8379.")

# %%
# Areas are true: the area of a sector is the share of the flights in it, and the area within a curve is one.

styles = {
    "von Mises": {"color": "#E69F00", "linestyle": (0, (6, 2)), "linewidth": 1.6},
    "wrapped normal": {"color": "#009E73", "linestyle": (0, (1, 1.2)), "linewidth": 2.0},
    "projected normal": {"color": "#CC79A7", "linestyle": (0, (5, 1.5, 1, 1.5)), "linewidth": 1.6},
    "GvM, order 2": {"color": "#56B4E9", "linewidth": 1.6},
}
# A share of the flights in one hour is a density per radian.
shares = np.array([0.02, 0.04, 0.06, 0.08])
circles = plots.radius(shares * 24 / (2 * np.pi))

figure, axes = plt.subplots(1, 2, figsize=(10.5, 6.4), subplot_kw={"projection": "polar"})
figure.subplots_adjust(left=0.05, right=0.95, top=0.79, bottom=0.15, wspace=0.22)
for ax, (group, rows) in zip(axes, days.items(), strict=True):
    angles, counts = flights.by_minute(rows)
    bars = {"color": "#D5D8DC", "edgecolor": "#D5D8DC", "label": "flights by quarter hour, area true"}
    plots.rose(angles, ax, weights=counts, bins=96, **bars)
    for name, style in styles.items():
        plots.circular_density(fits[group][name][0], ax, label=name, **style)
    plots.circular_density(fits[group][best[group]][0], ax, label="best by BIC", color="#0B3C5D", linewidth=2.2)
    plots.dial(ax)
    ax.set_title(f"{group.capitalize()}: {counts.sum():,} flights\nbest by BIC: {best[group]}", pad=14)
    ax.set_rmax(1.1 * circles[-1])
    labels = [*(f"{share:.0%}" for share in shares[:-1]), f"{shares[-1]:.0%} an hour"]
    ax.set_yticks(circles, labels, fontsize=8, color="#444444")
    ax.set_rlabel_position(45)  # three in the morning: hardly a flight, so there is room
    ax.grid(color="#B8BCC0", linewidth=0.5)
    ax.spines["polar"].set_visible(False)
figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=3, frameon=False, handlelength=3.2)
figure.suptitle("When flights left New York, April 2013", fontsize=15, fontweight="bold", y=0.97)
plt.show()

# %%
# A distribution answers questions that a histogram does not: where are the modes, which hours are the shortest that
# hold half of all flights, and how likely is a departure between 7:00 and 8:30?

for group, name in best.items():
    dist = fits[group][name][0]
    modes = np.sort(mgvm.angles.to_hours(dist.modes().location))
    half = mgvm.angles.to_hours(dist.interval(0.5))
    share = dist.cdf(mgvm.angles.from_hours(8.5)) - dist.cdf(mgvm.angles.from_hours(7.0))
    print(f"{group}: modes at", ", ".join(f"{hour:.1f} h" for hour in modes))
    print("  half of them:", ", ".join(f"{begin:.1f} to {end:.1f} h" for begin, end in sorted(half.tolist())))
    print(f"  between 7:00 and 8:30: {100 * share:.1f} %")
