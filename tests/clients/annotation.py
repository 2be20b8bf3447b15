"""Reads one export of each form with the tool that it is for, and prints what that tool found, as JSON.

annotation.py FOLDER CONFIG: FOLDER holds label-studio.json, argilla.json, doccano.ann.jsonl and prodigy.jsonl, CONFIG is
the labelling configuration of Label Studio. Label Studio's and Argilla's own parsers read theirs; doccano and Prodigy
need a server or a licence, so theirs are held to the forms that they document.
"""
import json
import pathlib
import sys
import tempfile
import uuid

import argilla
from label_studio_sdk.converter import Converter

folder, config = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
TYPES = {"constraint", "procedural", "belief", "preference", "episodic", "meta"}


def lines(name):
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def label_studio():
    converter = Converter(config.read_text(encoding="utf-8"), str(folder), download_resources=False)
    with tempfile.TemporaryDirectory() as out:
        converter.convert_to_json_min(str(folder / "label-studio.json"), out, is_dir=False)
        found = json.loads((pathlib.Path(out) / "result.json").read_text(encoding="utf-8"))
    return sorted([row["item_id"], row.get("type")] for row in found if row.get("type"))


def argilla_records():
    found = []
    for row in json.loads((folder / "argilla.json").read_text(encoding="utf-8")):
        record = argilla.Record.from_dict(row)
        back = record.to_dict()
        assert back["fields"] == row["fields"] and back["metadata"] == row["metadata"], row["id"]
        for response in record.responses:
            assert uuid.UUID(str(response.user_id)), response.user_id
            if response.question_name == "type":
                found.append([record.id, response.value])
        for suggestion in record.suggestions:
            assert suggestion.value in TYPES, suggestion
    return sorted(found)


def doccano():
    found = []
    for row in lines("doccano.ann.jsonl"):
        # Text classification: a text, and a list of label names; everything else becomes the example's meta data.
        assert isinstance(row["text"], str) and row["text"], row
        assert isinstance(row["label"], list) and set(row["label"]) <= TYPES, row
        assert isinstance(row["Comments"], list), row
        found += [[row["item_id"], label] for label in row["label"]]
    return sorted(found)


def prodigy():
    found = []
    for row in lines("prodigy.jsonl"):
        options = [option["id"] for option in row["options"]]
        assert row["_view_id"] == "choice" and set(options) == TYPES and isinstance(row["text"], str), row
        for name in ("_input_hash", "_task_hash"):
            assert isinstance(row[name], int) and -(2**31) <= row[name] < 2**31, row
        assert isinstance(row["meta"], dict), row
        if row.get("answer") is not None:
            assert row["answer"] in ("accept", "reject", "ignore") and set(row["accept"]) <= set(options), row
            assert isinstance(row["_timestamp"], int) and isinstance(row["_session_id"], str), row
        found += [[row["item_id"], label] for label in row.get("accept", [])]
    return sorted(found)


print(json.dumps({
    "label-studio": label_studio(), "argilla": argilla_records(), "doccano": doccano(), "prodigy": prodigy(),
}))
