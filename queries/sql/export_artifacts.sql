-- What the row of a version says; the list of keys follows.
SELECT
    v.id, a.path, a.platform, a.target, a.mode, a.resolves_to,
    (
        SELECT tb.sha256
        FROM artifact ta
        JOIN version tv ON tv.artifact_id = ta.id AND tv.current = 1
        JOIN blob tb ON tb.id = tv.blob_id
        WHERE ta.repo_id = a.repo_id AND ta.path = a.resolves_to AND ta.presence = 'present'
    ) AS resolved,
    v.commit_oid, b.sha256, b.git_oid, b.encoding, c.sha256 AS cluster, d.similarity
FROM version v
JOIN artifact a ON a.id = v.artifact_id
JOIN blob b ON b.id = v.blob_id
LEFT JOIN duplicate d ON d.blob_id = v.blob_id
LEFT JOIN blob c ON c.id = d.canonical_id
WHERE v.id IN (
