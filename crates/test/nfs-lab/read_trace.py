#!/usr/bin/env python3
"""Opens every table of a trace with DuckDB, pandas and pyarrow, and checks that all three read the same.

    read_trace.py TRACE [TRACE ...]

Each engine reads `TRACE/TABLE/*.parquet` and says how many rows there are, and of every column how many
values are not null and, of integer columns, their sum. Exits with 1 and a message where two differ, where an
engine fails, or where `trace.json` tells another number of rows; with 2 if a package is missing.
"""

import json
import pathlib
import sys

try:
    import duckdb
    import pandas
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset
except ImportError as error:
    print(f"{error}: pip install duckdb pandas pyarrow", file=sys.stderr)
    sys.exit(2)


def by_duckdb(folder):
    """Row count, and {column: (values, sum or None)}."""
    source = f"read_parquet('{str(folder).replace(chr(39), chr(39) * 2)}/*.parquet')"
    columns = duckdb.execute(f"describe select * from {source}").fetchall()
    terms = ["count(*)"]
    for name, kind, *_ in columns:
        terms.append(f'count("{name}")')
        # Sums pass 64 bits where hashes are summed: HUGEINT is what DuckDB sums BIGINT to.
        terms.append(f'coalesce(sum("{name}"), 0)' if kind in ("BIGINT", "INTEGER") else "null")
    [(rows, *facts)] = duckdb.execute(f"select {', '.join(terms)} from {source}").fetchall()
    facts = [None if fact is None else int(fact) for fact in facts]
    return rows, {name: pair for (name, *_), pair in zip(columns, zip(facts[::2], facts[1::2]))}


def by_pandas(folder):
    # Nullable types, or integers with nulls would become floating point numbers and lose their last bits.
    frame = pandas.read_parquet(folder, dtype_backend="numpy_nullable")
    facts = {}
    for name in frame.columns:
        column = frame[name]
        integer = pandas.api.types.is_integer_dtype(column)
        # Python's integers do not wrap as NumPy's do.
        total = sum(map(int, column.dropna())) if integer else None
        facts[name] = int(column.count()), total
    return len(frame), facts


def by_pyarrow(folder):
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
    facts = {}
    for name, column in zip(table.column_names, table.columns):
        total = None
        if pyarrow.types.is_integer(column.type):
            # Halves cannot overflow where whole 64-bit values would.
            whole = column.drop_null().cast(pyarrow.int64())
            low = pyarrow.compute.bit_wise_and(whole, 0xFFFFFFFF)
            high = pyarrow.compute.shift_right(whole, 32)
            low, high = (pyarrow.compute.sum(half).as_py() or 0 for half in (low, high))
            total = (high << 32) + low
        facts[name] = len(column) - column.null_count, total
    return table.num_rows, facts


ENGINES = {"DuckDB": by_duckdb, "pandas": by_pandas, "pyarrow": by_pyarrow}


def faults_of(trace):
    """What is wrong with a trace, in sentences; prints a line for each table that is right."""
    try:
        manifest = json.loads((trace / "trace.json").read_text())
    except (OSError, ValueError) as error:
        return [f"{trace}: trace.json cannot be read: {error}"]
    folders = sorted(entry for entry in trace.iterdir() if entry.is_dir())
    faults = [] if folders else [f"{trace}: no table"]
    for folder in folders:
        answers = {}
        for engine, read in ENGINES.items():
            try:
                answers[engine] = read(folder)
            except Exception as error:  # Whatever an engine raises, it could not read the table.
                faults.append(f"{folder}: {engine} cannot read it: {error}")
        if len(answers) < len(ENGINES):
            continue
        rows, facts = answers["DuckDB"]
        different = []
        for engine, (other_rows, other_facts) in answers.items():
            if other_rows != rows:
                different.append(f"{folder}: {rows} rows in DuckDB, {other_rows} in {engine}")
            for name in facts.keys() | other_facts.keys():
                one, other = facts.get(name), other_facts.get(name)
                if one != other:
                    different.append(
                        f"{folder}: column {name}: values and sum are {one} in DuckDB, {other} in {engine}"
                    )
        told = manifest.get("tables", {}).get(folder.name, {}).get("rows")
        if told != rows and manifest.get("verdict", {}).get("state") != "unfinished":
            different.append(f"{folder}: {rows} rows, but trace.json says {told}")
        if not different:
            print(f"{folder.name}: {rows} rows, {len(facts)} columns: the same in {', '.join(ENGINES)}")
        faults += different
    return faults


def main():
    if len(sys.argv) < 2:
        print(__doc__.split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    faults = [fault for trace in sys.argv[1:] for fault in faults_of(pathlib.Path(trace))]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
