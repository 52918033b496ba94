"""The benchmark suite.

python -m benchmarks list                                 (what there is)
python -m benchmarks run NAME --data DIR [--repeats N]    (measures what is missing; goes on where it was stopped)
python -m benchmarks report                               (pictures, tables, claims and results/README.md)
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from . import figures, suite
from .datasets import DataNotFound


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="what can be run")
    commands.add_parser("report", help="rebuild everything from the CSV files")
    run = commands.add_parser(
        "run", add_help=False, help="measure what is missing, then redraw; a script gets all further options"
    )
    known = [*figures.FIGURES, *figures.SCRIPTS]
    run.add_argument("name", nargs="?", metavar="NAME", help=f"one of {', '.join(known)}; then --help for its options")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "run":
        parser.error(f"unknown: {' '.join(rest)}")
    if options.command == "run" and options.name not in known:
        if options.name is None and {"-h", "--help"} & {*rest}:
            run.print_help()
            return
        run.error(f"NAME is {options.name or 'missing'}; it must be one of {', '.join(known)}")
    if options.command == "list":
        for figure in figures.FIGURES.values():
            print(f"{figure.name:18} {figure.title}")
        for name, title in figures.SCRIPTS.items():
            print(f"{name:18} {title} (a script: run {name} --help)")
    elif options.command == "report":
        figures.report()
        print(f"rebuilt all pictures and tables in {suite.RESULTS}")
    elif options.name in figures.SCRIPTS:
        sys.argv = [f"python -m benchmarks run {options.name}", *rest]
        importlib.import_module(f"benchmarks.{options.name}").main()
    else:
        figure = figures.FIGURES[options.name]
        own = argparse.ArgumentParser(prog=f"python -m benchmarks run {options.name}")
        own.add_argument(
            "--data", type=Path, help="folder with the .npz files; without it Adult, Covertype and MNIST are fetched"
        )
        if figure.default_repeats is not None:
            about = f"as many as are committed if left out: {figure.default_repeats}"
            own.add_argument("--repeats", type=int, default=figure.default_repeats, help=about)
        own.add_argument("--jobs", type=int, default=2, help="processes, -1 for one per core")
        chosen = own.parse_args(rest)
        if "repeats" in chosen and chosen.repeats < 1:
            own.error(f"--repeats {chosen.repeats} must be at least 1")
        if chosen.jobs == 0:
            own.error("--jobs 0 must be at least 1, or -1 for one per core")
        if chosen.data is not None and not chosen.data.is_dir():
            own.error(f"--data {chosen.data} is no folder; leave it out to fetch what scikit-learn can")
        try:
            for table, keys in figure.measurements(chosen):
                table.run(keys, chosen.data, chosen.jobs)
        except KeyboardInterrupt:
            sys.exit("\nstopped: what was measured is kept, and the same command goes on from there")
        except DataNotFound as error:
            own.error(str(error))
        figure.report()
        print(f"drawn in {suite.RESULTS}: {', '.join(figure.files)}")
        print("`python -m benchmarks report` redoes whatever else follows from the same rows")


if __name__ == "__main__":
    suite.one_thread_per_process()
    main()
