"""Read a set straight from a bucket: every table by its shards. Arguments: HOST:PORT of the service, BUCKET/PREFIX."""

import json
import sys

import pyarrow.dataset
from pyarrow.fs import S3FileSystem

host, place = sys.argv[1:]
bucket = S3FileSystem(endpoint_override=host, scheme="http", region="us-east-1")
with bucket.open_input_stream(f"{place}/manifest.json") as file:
    manifest = json.load(file)
for name, config in manifest["configs"].items():
    files = [f"{place}/data/{shard}" for shard in config["shards"]]
    rows = pyarrow.dataset.dataset(files, filesystem=bucket, format="parquet").count_rows()
    assert rows == config["rows"], f"{name}: {rows} rows in the bucket, {config['rows']} in the manifest"
