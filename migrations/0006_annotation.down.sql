DROP TABLE verdict;
DROP TABLE check_item;
DROP TABLE check_document;
DROP TABLE decision;
ALTER TABLE gold_item DROP COLUMN stratum;
ALTER TABLE gold_item DROP COLUMN text;
CREATE TABLE label_plain (
    id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES gold_item (id) ON DELETE CASCADE,
    annotator TEXT NOT NULL,
    pass INTEGER NOT NULL DEFAULT 1,
    status TEXT NOT NULL CHECK (status IN ('labelled', 'skipped', 'undone')),
    type TEXT,
    second TEXT,
    flagged INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '',
    rubric INTEGER NOT NULL,
    seconds REAL,
    origin TEXT NOT NULL,
    preannotated TEXT,
    at INTEGER NOT NULL
) STRICT;
INSERT INTO label_plain (id, item_id, annotator, pass, status, type, second, flagged, note, rubric, seconds, origin,
    preannotated, at)
SELECT id, item_id, annotator, pass, iif(status = 'open', 'undone', status), type, second, flagged, note, rubric,
    seconds, origin, preannotated, at
FROM label;
DROP TABLE label;
ALTER TABLE label_plain RENAME TO label;
CREATE INDEX label_item ON label (item_id, annotator, pass, id);
