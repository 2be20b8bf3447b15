-- Everything that the tags of a present artifact are decided by, with what its present tags were decided by.
SELECT
    a.id, r.owner, r.name, r.language, a.path, a.platform, a.target, a.mode, a.resolves_to,
    v.blob_id, b.sha256, b.size, h.facts, d.owners,
    t.version AS tagged_version, t.statistics_id AS tagged_statistics, t.input AS tagged_input
FROM artifact a
JOIN repo r ON r.id = a.repo_id
JOIN version v ON v.artifact_id = a.id AND v.current = 1
JOIN blob b ON b.id = v.blob_id
LEFT JOIN history h ON h.artifact_id = a.id
LEFT JOIN duplicate d ON d.blob_id = v.blob_id
LEFT JOIN tag t ON t.artifact_id = a.id AND t.dimension = 'function'
WHERE a.id > ?1 AND a.presence = 'present'
ORDER BY a.id
LIMIT ?2
