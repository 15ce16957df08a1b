#!/usr/bin/env python3
"""campaign.py [--scale X] [--parts LIST] [--seed N] [--keep DIR] [--markdown FILE]

Disturbs real runs and counts what became of them: tried, survived, detected, lost. Ends with status 1 where anything was lost.
A whole campaign (--scale 1) takes one to two hours on two cores; PARADL names the command.
"""
import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import flips
import kills
import parsers
import resources
import sanitizers
import stops
import trial

PARTS = {"kill": kills, "stop": stops, "resource": resources, "flip": flips, "fuzz": parsers, "sanitizer": sanitizers}


def main():
    given = options()
    program = os.path.abspath(os.environ.get("PARADL") or "build/debug/paradl")
    if not os.access(program, os.X_OK):
        sys.exit(f"campaign: {program} is not there: build it (make), or name the command in PARADL")
    start = time.monotonic()
    bench = trial.Bench(program, given.keep or tempfile.mkdtemp(prefix="campaign-"), given.scale, given.seed)
    for name in given.parts:
        print(f"campaign: {name}", file=sys.stderr, flush=True)
        before = len(bench.rows)
        PARTS[name].run(bench)
        print_rows(bench.rows[before:], sys.stderr)
    print_rows([*bench.rows, total(bench.rows)], sys.stdout)
    if given.markdown:
        write_markdown(given, bench, (time.monotonic() - start) / 60)
    for finding in bench.findings:
        print(finding)
    if not given.keep and not bench.findings:
        shutil.rmtree(bench.folder)
    return 1 if bench.findings else 0


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("--scale", type=float, default=1, help="part of a whole campaign, such as 0.01")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the moments and places")
    parser.add_argument("--keep", help="folder for the trials; else a temporary one, which stays where something was lost")
    parser.add_argument("--markdown", help="writes the table into this file too")
    given = parser.parse_args()
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]} is not one of {', '.join(PARTS)}")
    return given


COLUMNS = ("what", "tried", "survived", "detected", "lost", "")


def cells(row):
    return (row.name, f"{row.tried:,}", f"{row.survived:,}", f"{row.detected:,}", f"{row.lost:,}", row.remark)


def total(rows):
    sum_of = trial.Row("all")
    for row in rows:
        for outcome in ("survived", "detected", "lost"):
            sum_of.add(outcome, getattr(row, outcome))
    return sum_of


def print_rows(rows, stream):
    lines = [COLUMNS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    for line in lines:
        text = "  ".join(cell.ljust(width) if column in (0, 5) else cell.rjust(width)
                         for column, (cell, width) in enumerate(zip(line, widths)))
        print(text.rstrip(), file=stream, flush=True)


def write_markdown(given, bench, minutes):
    version = subprocess.run([bench.paradl, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    with open(given.markdown, "w") as file:
        file.write(f"{time.strftime('%Y-%m-%d')}, {version}, {os.cpu_count()} cores ({platform.machine()}), scale {given.scale:g}, "
                   f"seed {given.seed}, {minutes:.0f} minutes.\n\n")
        file.write("| what | tried | survived | detected | lost | remark |\n|---|---:|---:|---:|---:|---|\n")
        for row in [*bench.rows, total(bench.rows)]:
            file.write("| " + " | ".join(cells(row)) + " |\n")


if __name__ == "__main__":
    sys.exit(main())
