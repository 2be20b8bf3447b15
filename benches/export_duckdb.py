"""Writes the table in the Parquet files of a folder as DuckDB does, from memory. Used by benches/export.rs.

Arguments: folder, file to write, zstd level, rows in a group, runs. Prints the best run as JSON.
"""
import json
import os
import resource
import sys
import time

import duckdb

folder, out, level, group, runs = sys.argv[1:]
connection = duckdb.connect()
connection.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{folder}/*.parquet')")


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


best = None
for _ in range(max(1, int(runs))):
    used, begun = cpu(), time.perf_counter()
    connection.execute(
        f"COPY t TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {level}, ROW_GROUP_SIZE {group})"
    )
    run = {"seconds": time.perf_counter() - begun, "cpu": cpu() - used}
    best = min(best or run, run, key=lambda r: r["seconds"])
groups = connection.execute(f"SELECT count(DISTINCT row_group_id) FROM parquet_metadata('{out}')").fetchone()[0]
print(json.dumps({**best, "bytes": os.path.getsize(out), "groups": groups, "version": duckdb.__version__}))
