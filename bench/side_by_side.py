"""Compares Locus with common ways to run an agent's code, in one run on one machine.

usage: side_by_side.py PATH-OF-LOCUS [--rounds N] [--megabytes N] [--json]

Each way does the same jobs: a fresh process, a line in a kept session, a look at a big
session that must not change it, a program that never ends, a process that dies. Where a
way lacks a feature, the nearest thing that its users do is measured, and named.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

import peers


def measure(job, rounds):
    """Gives the least, the median and the 99th percentile of a job's times, in ms."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        job()
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    return {
        "rounds": rounds,
        "least_ms": times[0],
        "median_ms": statistics.median(times),
        "p99_ms": times[min(len(times) - 1, int(len(times) * 0.99))],
    }


def fill(megabytes):
    """The program that makes a session of so many megabytes, of small objects as real data are."""
    return f"data = [{{'n': i, 'text': str(i)}} for i in range({megabytes} * 4000)]; len(data)"


# A look that tries to change the session.
SPOIL = "data.clear(); len(data)"


def compare(way, rounds, megabytes):
    """Puts one way through all jobs and gives what was seen, by job."""
    seen = {}

    def note(job, how, figures, told=None):
        seen[job] = {"how": how, **(figures or {}), "told": told}

    note("fresh", way.fresh_how, measure(way.fresh, max(3, rounds // 20)))

    way.open()
    try:
        way.run("x = 1")
        assert way.run("x + 1") == 2
        note("line", way.line_how, measure(lambda: way.run("x + 1"), rounds))

        size = way.run(fill(megabytes))
        note("look", way.look_how, measure(lambda: way.look("len(data)"), max(3, rounds // 20)))
        way.look(SPOIL)
        kept = way.run("len(data)") == size
        seen["look"]["told"] = "the session is as before" if kept else "the session was spoilt"
        way.run("data = None")

        start = time.perf_counter()
        way.endless(1)
        waited = (time.perf_counter() - start) * 1000
        try:
            kept = way.run("x + 1") == 2
        except peers.Lost:
            kept = False
        note("endless", way.endless_how, {"median_ms": waited}, "the session is kept" if kept else "the session is gone")
    finally:
        way.close()

    way.open()
    try:
        way.run("x = 1")
        start = time.perf_counter()
        told = way.die()
        note("death", way.death_how, {"median_ms": (time.perf_counter() - start) * 1000}, told)
    finally:
        way.close()
    return seen


JOBS = {
    "fresh": "`1 + 1` in a process of its own, gone afterwards",
    "line": "`x + 1` in a session",
    "look": "`len(data)` of a big session, without a risk to it",
    "endless": "`while True: pass` with a limit of 1 s, to the answer",
    "death": "a segfault, to the next answer",
}


def table(results):
    ways = list(results)
    lines = ["| job | " + " | ".join(ways) + " |", "| --- |" + " --- |" * len(ways)]
    for job, title in JOBS.items():
        cells = []
        for way in ways:
            s = results[way][job]
            text = f"{s['median_ms']:.2f} ms" if s["median_ms"] < 100 else f"{s['median_ms']:.0f} ms"
            if "p99_ms" in s:
                text += f" (p99 {s['p99_ms']:.2f})"
            text += f": {s['how']}"
            if s["told"]:
                text += f"; {s['told']}"
            cells.append(text)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("locus", help="the command to measure")
    parser.add_argument("--rounds", type=int, default=400, help="calls of the quick jobs (default 400)")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the big session (default 200)")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    options = parser.parse_args()
    machine = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "megabytes": options.megabytes,
    }
    results = {}
    for way in peers.all_ways(options.locus):
        print(f"measuring {way.name} ...", file=sys.stderr, flush=True)
        try:
            results[way.name] = compare(way, options.rounds, options.megabytes)
        finally:
            way.end()
    if options.json:
        print(json.dumps({"machine": machine, "results": results}, indent=1))
        return
    print(", ".join(f"{k} {v}" for k, v in machine.items()))
    print()
    print(table(results))


if __name__ == "__main__":
    main()
