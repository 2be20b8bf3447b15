-- Texts that gold items can be drawn from. Read as another file's path, a text may have other items, so only the path
-- that decided its reading counts.
SELECT r.owner || '/' || r.name AS repo, r.stars, r.language, coalesce(r.license_spdx, r.license_api) AS license,
    a.path, b.id AS blob_id, b.git_oid, coalesce(c.sha256, b.sha256) AS cluster, s.items
FROM artifact a
JOIN repo r ON r.id = a.repo_id
JOIN version v ON v.artifact_id = a.id AND v.current = 1
JOIN blob b ON b.id = v.blob_id
JOIN segmentation s ON s.blob_id = b.id AND s.version = ? AND s.path = a.path AND s.items > 0
LEFT JOIN duplicate d ON d.blob_id = b.id
LEFT JOIN blob c ON c.id = d.canonical_id
WHERE a.presence = 'present' AND r.presence = 'present' AND a.mode <> 'symlink'
ORDER BY 1, a.path
