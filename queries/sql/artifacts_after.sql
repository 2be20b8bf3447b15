-- Keyset paging over (repository, path). A repository whose present name is unknown is listed under its last one.
SELECT
    a.id, a.repo_id, r.owner, r.name, a.path, a.platform, a.target, a.mode, a.resolves_to,
    v.blob_id, v.commit_oid, b.sha256, b.git_oid, b.size, b.encoding,
    r.stars, r.language, r.license_api, r.is_fork
FROM repo r
JOIN artifact a ON a.repo_id = r.id AND a.presence = 'present'
JOIN version v ON v.artifact_id = a.id AND v.current = 1
JOIN blob b ON b.id = v.blob_id
WHERE (lower(r.owner || '/' || r.name), a.path) > (?1, ?2)
ORDER BY lower(r.owner || '/' || r.name), a.path
LIMIT ?3
