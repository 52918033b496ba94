"""The benchmark suite.

python -m benchmarks list                                 (what there is)
python -m benchmarks run NAME --data DIR [--repeats N]    (measures what is missing; goes on where it was stopped)
python -m benchmarks report [NAME ...]                    (rebuilds reports from the CSV files; without a name all)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import experiments, table
from .datasets import DataNotFound
from .experiment import Experiment
from .table import Table

Chosen = list[tuple[Table, list[tuple]]]


def main(arguments: list[str] | None = None) -> None:
    known = experiments.EXPERIMENTS
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what can be run")
    report = commands.add_parser("report", help="rebuild reports from the CSV files")
    report.add_argument("names", nargs="*", metavar="NAME", help="all and the index if none is given")
    run = commands.add_parser("run", add_help=False, help="measure what is missing, then report")
    run.add_argument("name", nargs="?", metavar="NAME", help=f"one of {', '.join(known)}; then --help for its options")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "run":
        parser.error(f"unknown: {' '.join(rest)}")
    if options.command == "run" and options.name is None and {"-h", "--help"} & {*rest}:
        run.print_help()
        return
    for name in options.names if options.command == "report" else [options.name] if options.command == "run" else []:
        if name not in known:
            run.error(f"NAME is {name or 'missing'}; it must be one of {', '.join(known)}")
    if options.command == "list":
        for one in experiments.ALL:
            print(f"{one.name:22} {one.title}")
    elif options.command == "report":
        experiments.report(options.names)
        print(f"rebuilt {', '.join(options.names) or 'all pictures and tables'} in {table.RESULTS}")
    else:
        measure(known[options.name], rest)


def measure(experiment: Experiment, arguments: list[str]) -> None:
    """Measure what is missing, and report."""
    own, chosen = parsed(experiment, arguments)
    try:
        for rows, keys in selected(own, experiment, chosen):
            if chosen.anew:
                rows.forget(keys)
            rows.run(keys, chosen.data, chosen.jobs)
    except KeyboardInterrupt:
        sys.exit("\nstopped: what was measured is kept, and the same command goes on from there")
    except DataNotFound as error:
        own.error(str(error))
    experiment.report()
    print(f"written in {table.RESULTS}: {', '.join(experiment.made())}")
    print("`python -m benchmarks report` redoes whatever else follows from the same rows")


def parsed(experiment: Experiment, arguments: list[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    own = argparse.ArgumentParser(prog=f"python -m benchmarks run {experiment.name}", description=experiment.title)
    about = "folder with the .npz files, or for files that are made; without it what scikit-learn has is fetched"
    own.add_argument("--data", "--folder", type=Path, help=about)
    about = "as many as are committed if left out"
    if experiment.repeats is not None:
        about += f": {experiment.repeats}"
    own.add_argument("--repeats", type=int, default=experiment.repeats, help=about)
    own.add_argument("--jobs", type=int, default=experiment.jobs, help="processes, -1 for one per core")
    fields = dict.fromkeys(field for rows, _ in experiment.needs(experiment.repeats) for field in rows.key)
    about = f"only rows that have this; several values of one field are alternatives; fields: {', '.join(fields)}"
    own.add_argument("--only", nargs="+", default=[], metavar="FIELD=VALUE", help=about)
    own.add_argument("--anew", action="store_true", help="measure these rows again, also where they are known")
    chosen = own.parse_args(arguments)
    if chosen.repeats is not None and chosen.repeats < 1:
        own.error(f"--repeats {chosen.repeats} must be at least 1")
    if chosen.jobs == 0:
        own.error("--jobs 0 must be at least 1, or -1 for one per core")
    if chosen.data is not None and not chosen.data.is_dir():
        own.error(f"--data {chosen.data} is no folder; leave it out to fetch what scikit-learn can")
    for text in chosen.only:
        if text.partition("=")[0] not in fields or "=" not in text:
            own.error(f"--only {text} must be FIELD=VALUE with a field of {', '.join(fields)}")
    return own, chosen


def selected(own: argparse.ArgumentParser, experiment: Experiment, chosen: argparse.Namespace) -> Chosen:
    """Return the tables and the keys that ``--only`` leaves."""
    wanted: dict[str, set[str]] = {}
    for text in chosen.only:
        field, _, value = text.partition("=")
        wanted.setdefault(field, set()).add(value)
    found = [
        (rows, [key for key in keys if fits(dict(zip(rows.key, map(str, key), strict=True)), wanted)])
        for rows, keys in experiment.needs(chosen.repeats)
    ]
    if wanted and not any(keys for _, keys in found):
        own.error(f"--only {' '.join(chosen.only)} leaves nothing to measure")
    return found


def fits(key: dict[str, str], wanted: dict[str, set[str]]) -> bool:
    return all(key.get(field, "") in values for field, values in wanted.items())


if __name__ == "__main__":
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # worker processes use one thread each: they are what runs in parallel
    main()
