-- Labels become a journal: a row is the whole state of an item after one act, `undoes` names the act that a row takes
-- back, and `action` is the sender's own name for the act, so that sending it twice writes it once.
CREATE TABLE label_journal (
    id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES gold_item (id) ON DELETE CASCADE,
    annotator TEXT NOT NULL,
    pass INTEGER NOT NULL DEFAULT 1,
    status TEXT NOT NULL CHECK (status IN ('open', 'labelled', 'skipped')),
    type TEXT,
    second TEXT,
    flagged INTEGER NOT NULL DEFAULT 0 CHECK (flagged IN (0, 1)),
    note TEXT NOT NULL DEFAULT '',
    rubric INTEGER NOT NULL,
    seconds REAL,
    origin TEXT NOT NULL,
    preannotated TEXT,
    ordering TEXT NOT NULL DEFAULT 'imported',
    position INTEGER,
    undoes INTEGER UNIQUE,
    action TEXT UNIQUE,
    at INTEGER NOT NULL,
    CHECK ((status = 'labelled') = (type IS NOT NULL))
) STRICT;
INSERT INTO label_journal (id, item_id, annotator, pass, status, type, second, flagged, note, rubric, seconds, origin,
    preannotated, ordering, at)
SELECT id, item_id, annotator, pass, iif(status = 'undone', 'open', status), iif(status = 'labelled', type, NULL),
    second, flagged <> 0, note, rubric, seconds, origin, preannotated, 'imported', at
FROM label WHERE status <> 'labelled' OR type IS NOT NULL;
DROP TABLE label;
ALTER TABLE label_journal RENAME TO label;
CREATE INDEX label_item ON label (item_id, annotator, pass, id);
CREATE INDEX label_annotator ON label (annotator, pass, id);

-- `text` is kept only for items that came with one and whose blob the corpus does not hold.
ALTER TABLE gold_item ADD COLUMN text TEXT;
ALTER TABLE gold_item ADD COLUMN stratum TEXT;

-- What was decided where labels differ. Append only; `type` is NULL where a decision was taken back.
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES gold_item (id) ON DELETE CASCADE,
    type TEXT,
    why TEXT NOT NULL,
    by TEXT NOT NULL,
    origin TEXT NOT NULL,
    rubric INTEGER NOT NULL,
    action TEXT UNIQUE,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX decision_item ON decision (item_id, id);

-- A text and what a compactor made of it, to be verified by people.
CREATE TABLE check_document (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- A constraint of the original; `verdict` is what `aac check` says of it, `found` the passage that it compared.
CREATE TABLE check_item (
    id TEXT PRIMARY KEY,
    document_id INTEGER NOT NULL REFERENCES check_document (id) ON DELETE CASCADE,
    line INTEGER NOT NULL,
    text TEXT NOT NULL,
    verdict TEXT NOT NULL,
    found TEXT
) STRICT, WITHOUT ROWID;

-- The journal of verdicts, in the form of `label`.
CREATE TABLE verdict (
    id INTEGER PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES check_item (id) ON DELETE CASCADE,
    annotator TEXT NOT NULL,
    pass INTEGER NOT NULL DEFAULT 1,
    status TEXT NOT NULL CHECK (status IN ('open', 'labelled', 'skipped')),
    type TEXT,
    second TEXT,
    flagged INTEGER NOT NULL DEFAULT 0 CHECK (flagged IN (0, 1)),
    note TEXT NOT NULL DEFAULT '',
    rubric INTEGER NOT NULL,
    seconds REAL,
    origin TEXT NOT NULL,
    preannotated TEXT,
    ordering TEXT NOT NULL DEFAULT 'imported',
    position INTEGER,
    undoes INTEGER UNIQUE,
    action TEXT UNIQUE,
    at INTEGER NOT NULL,
    CHECK ((status = 'labelled') = (type IS NOT NULL))
) STRICT;
CREATE INDEX verdict_item ON verdict (item_id, annotator, pass, id);
CREATE INDEX verdict_annotator ON verdict (annotator, pass, id);
