-- Artifacts after key ?1 that are present and whose history was read at another head commit or not at all.
SELECT a.id, r.owner, r.name, a.path, r.head
FROM artifact a
JOIN repo r ON r.id = a.repo_id
LEFT JOIN history h ON h.artifact_id = a.id
WHERE
    a.id > ?1
    AND a.presence = 'present'
    AND r.presence = 'present'
    AND r.source = 'github'
    AND (h.artifact_id IS NULL OR h.head IS NOT r.head)
ORDER BY a.id
LIMIT ?2
