-- Stages of a corpus: a path is found by a search hit, or by being an artifact (local repositories have no hits).
SELECT
    (SELECT count(*) FROM (SELECT repo_id, path FROM hit UNION SELECT repo_id, path FROM artifact)) AS found,
    (SELECT count(*) FROM artifact WHERE presence = 'present') AS fetched,
    (
        SELECT count(DISTINCT v.blob_id)
        FROM artifact a JOIN version v ON v.artifact_id = a.id AND v.current = 1
        WHERE a.presence = 'present'
    ) AS distinct_blobs,
    CASE WHEN EXISTS (SELECT 1 FROM duplicate) THEN (
        SELECT count(DISTINCT coalesce(d.canonical_id, v.blob_id))
        FROM artifact a
        JOIN version v ON v.artifact_id = a.id AND v.current = 1
        LEFT JOIN duplicate d ON d.blob_id = v.blob_id
        WHERE a.presence = 'present'
    ) END AS canonical
