CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    command TEXT NOT NULL,
    options TEXT NOT NULL DEFAULT '{}',
    version TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT CHECK (outcome IN ('done', 'partial', 'paused', 'failed')),
    summary TEXT
) STRICT;

-- `key` is the lower-case owner/name that the repository answers to now. It is NULL while somebody else holds the name
-- and the repository's present one is not known.
CREATE TABLE repo (
    id INTEGER PRIMARY KEY,
    node_id TEXT UNIQUE,
    key TEXT UNIQUE,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('github', 'local')),
    is_fork INTEGER,
    is_archived INTEGER,
    is_private INTEGER,
    stars INTEGER,
    language TEXT,
    license_api TEXT,
    license_spdx TEXT,
    license_tier TEXT,
    license_evidence TEXT,
    license_version INTEGER,
    default_branch TEXT,
    head BLOB,
    pushed_at INTEGER,
    facts_at INTEGER,
    presence TEXT NOT NULL DEFAULT 'present',
    presence_why TEXT,
    presence_run INTEGER REFERENCES run (id),
    first_run INTEGER NOT NULL REFERENCES run (id),
    last_run INTEGER NOT NULL REFERENCES run (id)
) STRICT;

CREATE TABLE repo_name (
    repo_id INTEGER NOT NULL REFERENCES repo (id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    first_run INTEGER NOT NULL REFERENCES run (id),
    PRIMARY KEY (repo_id, owner, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE dictionary (
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL,
    trained_on INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

-- codec: 0 as is, 1 zstd, 2 zstd with dictionary_id.
CREATE TABLE blob (
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
    git_oid BLOB NOT NULL CHECK (length(git_oid) = 20),
    size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    codec INTEGER NOT NULL CHECK (codec IN (0, 1, 2)),
    dictionary_id INTEGER REFERENCES dictionary (id),
    body BLOB NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    CHECK ((codec = 2) = (dictionary_id IS NOT NULL))
) STRICT;
CREATE INDEX blob_git_oid ON blob (git_oid);

CREATE TABLE artifact (
    id INTEGER PRIMARY KEY,
    repo_id INTEGER NOT NULL REFERENCES repo (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    platform TEXT NOT NULL,
    target TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('file', 'executable', 'symlink')),
    resolves_to TEXT,
    presence TEXT NOT NULL DEFAULT 'present',
    presence_run INTEGER REFERENCES run (id),
    first_run INTEGER NOT NULL REFERENCES run (id),
    last_run INTEGER NOT NULL REFERENCES run (id),
    UNIQUE (repo_id, path)
) STRICT;

-- Every occurrence: the artifact held this blob from first_run to last_run. At most one row an artifact is current.
CREATE TABLE version (
    id INTEGER PRIMARY KEY,
    artifact_id INTEGER NOT NULL REFERENCES artifact (id) ON DELETE CASCADE,
    blob_id INTEGER NOT NULL REFERENCES blob (id),
    commit_oid BLOB,
    current INTEGER NOT NULL DEFAULT 1 CHECK (current IN (0, 1)),
    first_run INTEGER NOT NULL REFERENCES run (id),
    last_run INTEGER NOT NULL REFERENCES run (id)
) STRICT;
CREATE UNIQUE INDEX version_current ON version (artifact_id) WHERE current = 1;
CREATE INDEX version_artifact ON version (artifact_id, blob_id);
CREATE INDEX version_blob ON version (blob_id);

CREATE TABLE history (
    artifact_id INTEGER PRIMARY KEY REFERENCES artifact (id) ON DELETE CASCADE,
    head BLOB,
    complete INTEGER NOT NULL CHECK (complete IN (0, 1)),
    facts TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

CREATE TABLE crawl_window (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run (id),
    target TEXT NOT NULL,
    fork TEXT NOT NULL CHECK (fork IN ('plain', 'only')),
    lo INTEGER NOT NULL,
    hi INTEGER,
    axis TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 1,
    total INTEGER,
    delivered INTEGER NOT NULL DEFAULT 0,
    why TEXT,
    UNIQUE (run_id, target, fork, lo, hi, axis)
) STRICT;
CREATE INDEX crawl_window_target ON crawl_window (target, fork, state);

CREATE TABLE crawl_page (
    window_id INTEGER NOT NULL REFERENCES crawl_window (id) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    page INTEGER NOT NULL,
    total INTEGER NOT NULL,
    items INTEGER NOT NULL,
    incomplete INTEGER NOT NULL CHECK (incomplete IN (0, 1)),
    fetched_at INTEGER NOT NULL,
    PRIMARY KEY (window_id, attempt, page)
) STRICT, WITHOUT ROWID;

CREATE TABLE hit (
    window_id INTEGER NOT NULL REFERENCES crawl_window (id) ON DELETE CASCADE,
    repo_id INTEGER NOT NULL REFERENCES repo (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    blob_oid BLOB NOT NULL,
    commit_oid BLOB,
    PRIMARY KEY (window_id, repo_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX hit_repo ON hit (repo_id, path);

CREATE TABLE ledger (
    identity TEXT NOT NULL,
    resource TEXT NOT NULL,
    state TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (identity, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE etag (
    identity TEXT NOT NULL,
    url TEXT NOT NULL,
    etag TEXT NOT NULL,
    body TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (identity, url)
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
    id INTEGER PRIMARY KEY,
    run_id INTEGER NOT NULL REFERENCES run (id),
    stage TEXT NOT NULL,
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- An empty name stands for every repository of the owner. Both in lower case.
CREATE TABLE optout (
    owner TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    why TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE setting (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `path` is the one that decided how the text was read: of the paths that hold the blob, present ones before past ones,
-- files before links, then the first. Empty when only links hold it; those have no items.
CREATE TABLE segmentation (
    blob_id INTEGER PRIMARY KEY REFERENCES blob (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    path TEXT NOT NULL,
    items INTEGER NOT NULL,
    packed BLOB NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

-- `spans` is a JSON list of [first byte, one past the last, kind, rule] over the text.
CREATE TABLE redaction (
    blob_id INTEGER PRIMARY KEY REFERENCES blob (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    spans TEXT NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

-- `packed` is empty for a blob that is no text.
CREATE TABLE signature (
    blob_id INTEGER PRIMARY KEY REFERENCES blob (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    packed BLOB NOT NULL
) STRICT;

-- The corpus statistics that clusters and tags were made with. `input` is a fingerprint of what they were counted from,
-- `digest` is of their content, so that equal corpora have equal statistics whatever the order of runs; `lines` are the
-- line frequencies, kept for the current ones only.
CREATE TABLE statistics (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    input BLOB NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    artifacts INTEGER NOT NULL,
    lines BLOB,
    current INTEGER NOT NULL DEFAULT 1 CHECK (current IN (0, 1)),
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;
CREATE UNIQUE INDEX statistics_current ON statistics (current) WHERE current = 1;

-- `owners` counts the owners of the whole cluster, forks left out.
CREATE TABLE duplicate (
    blob_id INTEGER PRIMARY KEY REFERENCES blob (id) ON DELETE CASCADE,
    canonical_id INTEGER NOT NULL REFERENCES blob (id) ON DELETE CASCADE,
    similarity REAL NOT NULL,
    owners INTEGER NOT NULL,
    statistics_id INTEGER NOT NULL REFERENCES statistics (id)
) STRICT;
CREATE INDEX duplicate_canonical ON duplicate (canonical_id);

-- `input` is a fingerprint of everything else that a tag was decided by: blob, path, repository, history.
CREATE TABLE tag (
    artifact_id INTEGER NOT NULL REFERENCES artifact (id) ON DELETE CASCADE,
    dimension TEXT NOT NULL,
    value TEXT NOT NULL,
    rule TEXT NOT NULL,
    evidence TEXT NOT NULL,
    confidence REAL NOT NULL,
    version INTEGER NOT NULL,
    statistics_id INTEGER REFERENCES statistics (id),
    input INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    PRIMARY KEY (artifact_id, dimension)
) STRICT, WITHOUT ROWID;

-- `model` is tier and hash, `segmenter` and `path` those of the segmentation whose items were classified, `packed` a
-- form byte and seven bytes an item (`src/classify/pack.rs`).
CREATE TABLE prediction (
    blob_id INTEGER PRIMARY KEY REFERENCES blob (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    segmenter INTEGER NOT NULL,
    path TEXT NOT NULL,
    packed BLOB NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

CREATE TABLE sample (
    id INTEGER PRIMARY KEY,
    seed INTEGER NOT NULL,
    options TEXT NOT NULL,
    strata TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id)
) STRICT;

CREATE TABLE gold_item (
    id TEXT PRIMARY KEY,
    sample_id INTEGER REFERENCES sample (id),
    repo TEXT NOT NULL,
    path TEXT NOT NULL,
    blob_oid BLOB NOT NULL,
    blob_id INTEGER REFERENCES blob (id) ON DELETE SET NULL,
    line INTEGER NOT NULL,
    start INTEGER,
    stop INTEGER,
    kind TEXT NOT NULL,
    heading TEXT NOT NULL,
    text_sha256 BLOB NOT NULL,
    language TEXT,
    license TEXT,
    final_type TEXT,
    final_why TEXT,
    final_by TEXT
) STRICT, WITHOUT ROWID;

-- Append only: undo is a later row that supersedes. `pass` separates independent rounds of one annotator.
CREATE TABLE label (
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
CREATE INDEX label_item ON label (item_id, annotator, pass, id);
