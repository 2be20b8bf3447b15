-- Artifacts as they stood at run ?1, whose bytes are newer than run ?2: keys only, so that a whole corpus fits in memory.
SELECT
    a.id AS artifact, a.repo_id AS repo, v.id AS version, v.blob_id AS blob, b.size, a.mode = 'symlink' AS is_link,
    coalesce(t.value = 'pointer', 0) AS is_pointer, coalesce(d.canonical_id, v.blob_id) AS cluster,
    coalesce(b.kept = 0, 0) AS is_withheld
FROM artifact a
JOIN version v ON v.id = (
    SELECT id FROM version WHERE artifact_id = a.id AND first_run <= ?1 ORDER BY first_run DESC, id DESC LIMIT 1
)
JOIN blob b ON b.id = v.blob_id
LEFT JOIN duplicate d ON d.blob_id = v.blob_id
LEFT JOIN tag t ON t.artifact_id = a.id AND t.dimension = 'function'
WHERE (a.presence = 'present' OR a.presence_run > ?1) AND v.first_run > ?2
ORDER BY a.repo_id, a.path
