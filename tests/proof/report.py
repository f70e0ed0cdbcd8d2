"""The report: a page with a table of promises and faults, and a picture for each scene."""
import html
import os
import platform

import matplotlib

matplotlib.use("Agg")
import numpy as np  # noqa: E402
from matplotlib import pyplot  # noqa: E402

import check  # noqa: E402

STEP_S = 0.2
COLORS = {"fresh": "#4c956c", "stale": "#f4a259", "absent": "#8fa6cb", "default": "#7d5ba6", "error": "#bc4b51"}

PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>segar: the proof</title>
<style>
body {{ font: 15px/1.45 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222 }}
table {{ border-collapse: collapse; font-size: 13px }}
td, th {{ border: 1px solid #ccc; padding: .25em .5em; text-align: right; vertical-align: top }}
td:first-child, th {{ text-align: left }}
.broken {{ background: #fbd5d5 }}
img {{ max-width: 100%; display: block }}
</style>
<h1>segar: the proof</h1>
<p>{daemons} <code>segard</code> processes, one Redis, one PostgreSQL, one load generator and one writer on one machine
({machine}). Offered: {offered}. The hot key's build takes {build_ms:.0f} ms; its values are fresh for {fresh_s:g} s ± 10 % and
served stale for {stale_s:g} s after that (10 minutes to 30 s, shortened); the other {items:,} keys, by Zipf's law a tenth of the
requests, are fresh for {item_fresh_s:g} s. The budget of the fleet is {budget} builds a second and {concurrency} at once.</p>
<p>All numbers are the checker's (<code>tests/proof/check.py</code>), which knows nothing of the daemons: it reads the origin's log, the
history of commits and every reply. Made by <code>{command}</code>.</p>
<h2>Promises and faults</h2>
{table}
<p><b>1</b> most builds of one key beside the one of its expiry / as many as the scene allows (one for each lease that is lost; one a daemon
while the store is away) · <b>2</b> most builds that began within any one second, and that ran at once · <b>3</b> how far the oldest value was from its
bound · <b>4</b> versions that went down · <b>5</b> how far the latest reply was from its deadline, and for how long a process of the control, or the load
generator itself, did not run when it was due; requests lost · <b>6</b> replies by state, errors by code · <b>7</b> requests refused, of any key.</p>
{scenes}
</html>
"""


def write(folder, records, verdicts, size, only=None):
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for verdict in verdicts:
        run = check.Run(records / verdict.name)
        draw(run, verdict, folder / f"{verdict.name}.png")
        sections.append(section(verdict))
    offered = [verdict.numbers["offered"] for verdict in verdicts]
    told = size.told()
    command = (f"tests/proof/run.py{' --short' * size.short}{f' --only {only}' * bool(only)} --daemons {size.daemons}"
               f" --rate {size.rate:.0f} --report docs/proof")
    (folder / "index.html").write_text(PAGE.format(
        daemons=size.daemons, machine=f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        offered=f"{min(offered):,.0f} to {max(offered):,.0f} requests a second" if offered else "nothing",
        build_ms=told["build_ms"], fresh_s=told["fresh_ms"]["hot"] / 1000, stale_s=told["stale_ms"]["hot"] / 1000,
        items=size.items, item_fresh_s=told["fresh_ms"]["item"] / 1000, budget=told["budget"],
        concurrency=told["concurrency"], command=html.escape(command),
        table=table(verdicts), scenes="\n".join(sections)))


def table(verdicts):
    rows = ["<tr><th>scene" + "".join(f"<th>{number}: {name}" for number, name in check.PROMISES.items())]
    for verdict in verdicts:
        n, broken = verdict.numbers, verdict.promises_broken()
        cells = [f"{n['extra_builds']} / {n['extra_allowed']}", f"{n['builds_in_a_second']}/s, {n['builds_at_once']}",
                 f"{n['age_over_ms']:+,.0f} ms", f"{n['versions_down']}",
                 f"{n['late_ms']:+,.0f} ms, noise {n['noise_ms']:.0f}; {n['errors'].get('lost', 0)} lost",
                 ", ".join(f"{count:,} {name}" for name, count in {**n["states"], **n["errors"]}.items()
                           if count and name != "error"), f"{n['refused']:,}"]
        rows.append(f"<tr><td><a href='#{verdict.name}'>{html.escape(verdict.title)}</a>" + "".join(
            f"<td{' class=broken' if number in broken else ''}>{cell}" for number, cell in enumerate(cells, 1)))
    return "<table>\n" + "\n".join(rows) + "\n</table>"


def section(verdict):
    n = verdict.numbers
    breaches = "".join(f"<li class=broken>{html.escape(breach)}" for breach in verdict.breaches)
    latency = ", ".join(f"{name} {value:.2f} ms" for name, value in n["latency_ms"].items())
    return (f"<h2 id='{verdict.name}'>{html.escape(verdict.title)}</h2><p>{n['asked']:,} requests, {n['offered']:,.0f} a second;"
            f" {n['builds']:,} builds; {n['commits']:,} commits. Latency: {latency}.</p><ul>{breaches}</ul>"
            f"<img src='{verdict.name}.png' alt='{html.escape(verdict.title)}'>")


def draw(run, verdict, path):
    begin = run.scene["begin_us"]
    replies = run.replies[np.argsort(run.replies["due"])]
    at = (replies["due"].astype(np.int64) - begin) / 1e6
    came = at + replies["took"] / 1e6
    edges = np.arange(0, max(came.max(), 1) + STEP_S, STEP_S)
    figure, rows = pyplot.subplots(4, 1, sharex=True, figsize=(10, 7.5))
    draw_states(rows[0], replies, came, edges)
    draw_latency(rows[1], replies, at, edges)
    draw_builds(rows[2], run, begin, edges)
    draw_age(rows[3], run, replies, came, edges)
    for row in rows:
        for event in run.scene["events"]:
            since = (event["at_us"] - begin) / 1e6
            row.axvspan(since, max((event.get("until_us", 0) - begin) / 1e6, since + 0.02), color="#888", alpha=0.15, lw=0)
        row.grid(alpha=0.3)
    rows[0].set_title(verdict.title, fontsize=10)
    rows[-1].set_xlabel("seconds")
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=72)
    pyplot.close(figure)


def draw_states(row, replies, came, edges):
    codes = {"fresh": 1, "stale": 2, "default": 3, "absent": 4, "error": 0}
    counts = [np.histogram(came[replies["state"] == code], edges)[0] / STEP_S for code in codes.values()]
    row.stackplot(edges[:-1], counts, labels=list(codes), colors=[COLORS[name] for name in codes], step="post")
    row.set_ylabel("replies/s")
    row.legend(fontsize=7, loc="lower right", ncols=5)


def draw_latency(row, replies, at, edges):
    bins = np.digitize(at, edges) - 1
    took = np.maximum(replies["took"] / 1000, 0.001)
    for name, percent in (("p50", 50), ("p99", 99), ("max", 100)):
        values = [np.percentile(took[bins == i], percent) if (bins == i).any() else np.nan for i in range(len(edges) - 1)]
        row.step(edges[:-1], values, where="post", label=name, lw=1)
    row.set_yscale("log")
    row.set_ylabel("latency, ms")
    row.legend(fontsize=7, loc="upper right", ncols=3)


def draw_builds(row, run, begin, edges):
    begins = np.sort([(build.begin - begin) / 1e6 for build in run.builds])
    ends = np.sort([(build.end - begin) / 1e6 for build in run.builds])
    fine = np.arange(0, edges[-1], 0.05)
    row.plot(fine, np.searchsorted(begins, fine, "right") - np.searchsorted(begins, fine - 1, "right"), lw=1,
             label="builds begun in the last second")
    row.plot(fine, np.searchsorted(begins, fine, "right") - np.searchsorted(ends, fine, "right"), lw=1, label="at once")
    row.axhline(run.scene["budget"], color="#bc4b51", ls="--", lw=1, label="budget")
    row.set_ylabel("origin")
    row.legend(fontsize=7, loc="upper right", ncols=3)


def draw_age(row, run, replies, came, edges):
    keyspace = run.streams[0]
    mine = (replies["stream"] == 0) & (replies["built"] > 0)
    age = came[mine] - (replies["built"][mine].astype(np.int64) - run.scene["begin_us"]) / 1e6
    bins = np.digitize(came[mine], edges) - 1
    for name, pick in (("oldest", np.max), ("youngest", np.min)):
        values = [pick(age[bins == i]) if (bins == i).any() else np.nan for i in range(len(edges) - 1)]
        row.step(edges[:-1], values, where="post", label=name, lw=1)
    fresh_s = run.scene["fresh_ms"][keyspace] / 1000 * (1 + run.scene["jitter"])
    row.axhline(fresh_s, color="#4c956c", ls="--", lw=1, label="fresh, at most")
    row.axhline(fresh_s + run.scene["stale_ms"][keyspace] / 1000, color="#bc4b51", ls="--", lw=1, label="stale, at most")
    row.set_ylabel(f"age of {keyspace}, s")
    row.legend(fontsize=7, loc="lower right", ncols=4)
