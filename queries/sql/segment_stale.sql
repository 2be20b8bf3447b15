-- Blobs whose items or redaction spans are missing, of another version, or read as another path than they would be now.
SELECT id, substr(chosen, 3) AS path, size
FROM (
    SELECT
        b.id, b.size, s.version AS segmented, s.path, r.version AS redacted,
        (
            SELECT min(
                CASE WHEN v.current = 1 AND a.presence = 'present' THEN '0' ELSE '1' END
                || CASE a.mode WHEN 'symlink' THEN '1' ELSE '0' || a.path END
            )
            FROM version v JOIN artifact a ON a.id = v.artifact_id
            WHERE v.blob_id = b.id
        ) AS chosen
    FROM blob b
    LEFT JOIN segmentation s ON s.blob_id = b.id
    LEFT JOIN redaction r ON r.blob_id = b.id
    WHERE b.id > ?1
)
WHERE chosen IS NOT NULL AND (segmented IS NOT ?2 OR redacted IS NOT ?3 OR path IS NOT substr(chosen, 3))
ORDER BY id
LIMIT ?4
