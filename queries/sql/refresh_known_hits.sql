-- Hits that earlier runs got for target ?1 in fork family ?2 and of which run ?3 has just seen that they are as stored.
SELECT DISTINCT r.node_id, a.path, b.size
FROM crawl_window w
JOIN hit h ON h.window_id = w.id
JOIN repo r ON r.id = h.repo_id
JOIN artifact a ON a.repo_id = h.repo_id AND a.path = h.path
JOIN version v ON v.artifact_id = a.id AND v.current = 1
JOIN blob b ON b.id = v.blob_id
WHERE
    w.target = ?1
    AND w.fork = ?2
    AND w.run_id < ?3
    AND r.checked_run = ?3
    AND r.node_id IS NOT NULL
    AND a.presence = 'present'
    AND a.missed_run IS NULL
    AND a.last_run = ?3
    AND v.first_run < ?3
