"""Load an export with everything that people load Parquet with, and compare with what the store holds.

Usage: readers.py SET EXPECTED.json; EXPECTED holds rows by configuration and the checksum of the texts of `artifacts`.
"""

import glob
import hashlib
import json
import os
import sys

folder, expected = sys.argv[1], json.load(open(sys.argv[2]))
# Nothing here may ask the network.
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=os.path.join(os.path.dirname(sys.argv[2]), "hf"))
manifest = json.load(open(f"{folder}/manifest.json"))
configs = {name: sorted(glob.glob(f"{folder}/data/{name}-*.parquet")) for name in expected["rows"]}
assert len(configs["artifacts"]) > 1, "one shard proves nothing about the others"


def checksum(texts):
    digest = hashlib.sha256()
    for text in texts:
        digest.update(b"\x01" if text is None or text != text else text.encode() + b"\x00")
    return digest.hexdigest()


def same(reader, name, rows, columns, texts=None):
    assert rows == expected["rows"][name], f"{reader}: {name} has {rows} rows, the store {expected['rows'][name]}"
    stated = [column["name"] for column in manifest["configs"][name]["columns"]]
    assert list(columns) == stated, f"{reader}: {name} has the columns {list(columns)}, the manifest {stated}"
    if name == "artifacts" and texts is not None:
        assert checksum(texts) == expected["texts"], f"{reader}: the texts are not those of the store"


def by_pyarrow():
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    for name, files in configs.items():
        schemas = {str(pq.read_schema(file).remove_metadata()) for file in files}
        assert len(schemas) == 1, f"shards of {name} differ: {schemas}"
        table = ds.dataset(files).to_table()
        same("pyarrow", name, table.num_rows, table.column_names, table.column("text").to_pylist() if "text" in table.column_names else None)
        for field in table.schema:
            stated = next(c for c in manifest["configs"][name]["columns"] if c["name"] == field.name)
            assert field.nullable == stated["nullable"], f"{name}.{field.name}"
            shown = str(field.type)
            assert "dictionary" not in shown and "map" not in shown and "large" not in shown, f"{name}.{field.name}: {shown}"
    null = [pq.read_table(file).column("stars") for file in configs["artifacts"]]
    assert any(c.null_count == len(c) for c in null) and any(c.null_count < len(c) for c in null), "no shard lacks a column"
    meta = pq.read_metadata(configs["artifacts"][0]).metadata
    for key in ["schema", "rules", "model", "version", "commit", "run"]:
        assert f"aac.{key}".encode() in meta, f"the footer lacks {key}"


def by_duckdb():
    import duckdb

    for name, files in configs.items():
        relation = duckdb.sql(f"SELECT * FROM read_parquet({files!r})")
        texts = [row[0] for row in duckdb.sql(f"SELECT text FROM read_parquet({files!r})").fetchall()] if name == "artifacts" else None
        same("duckdb", name, len(relation.fetchall()), relation.columns, texts)


def by_polars():
    import polars

    for name, files in configs.items():
        frame = polars.scan_parquet(files).collect()
        same("polars", name, frame.height, frame.columns, frame["text"].to_list() if name == "artifacts" else None)
        if name == "artifacts":
            assert frame["platform"].dtype == polars.String, frame["platform"].dtype


def by_pandas():
    import pandas

    for name in configs:
        frame = pandas.concat([pandas.read_parquet(file) for file in configs[name]], ignore_index=True)
        same("pandas", name, len(frame), frame.columns, list(frame["text"]) if name == "artifacts" else None)


def by_datasets():
    import datasets

    for name in (name for name, rows in expected["rows"].items() if rows > 0):
        # By the card: the way a user of the Hub takes.
        whole = datasets.load_dataset(folder, name, split="train")
        texts = [row["text"] for row in whole] if name == "artifacts" else None
        same("datasets", name, whole.num_rows, whole.column_names, texts)
        rows = list(datasets.load_dataset(folder, name, split="train", streaming=True))
        texts = [row["text"] for row in rows] if name == "artifacts" else None
        same("datasets, streaming", name, len(rows), rows[0], texts)


def by_mlcroissant():
    import mlcroissant

    dataset = mlcroissant.Dataset(jsonld=f"{folder}/croissant.json")
    issues = dataset.metadata.ctx.issues
    assert not issues.errors, issues.errors
    for name in configs:
        rows = list(dataset.records(name))
        stated = [column["name"] for column in manifest["configs"][name]["columns"]]
        # A list of structs has a key for each member.
        columns = list(dict.fromkeys(key.split("/")[1] for key in rows[0])) if rows else stated
        decode = lambda value: value.decode() if isinstance(value, bytes) else value
        texts = [decode(row[f"{name}/text"]) for row in rows] if name == "artifacts" else None
        same("mlcroissant", name, len(rows), columns, texts)


failed = []
for reader in [by_pyarrow, by_duckdb, by_polars, by_pandas, by_datasets, by_mlcroissant]:
    try:
        reader()
    except Exception as error:  # Every reader is heard, then all that failed are named.
        failed.append(f"{reader.__name__}: {type(error).__name__}: {error}")
sys.exit("\n".join(failed) or 0)
