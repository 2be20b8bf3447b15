-- Of run ?1: artifacts that no hit had named, and how many of them have a size at which search could not list every file.
SELECT
    count(*),
    coalesce(
        sum(
            EXISTS (
                SELECT 1
                FROM crawl_window w
                WHERE
                    w.run_id = ?1 AND w.target = a.target AND w.lo = b.size AND w.hi = b.size
                    AND w.state = 'overflow' AND w.unreachable > 0
            )
        ),
        0
    )
FROM artifact a
JOIN version v ON v.artifact_id = a.id AND v.current = 1
JOIN blob b ON b.id = v.blob_id
WHERE
    a.last_run = ?1
    AND NOT EXISTS (
        SELECT 1
        FROM hit h
        JOIN crawl_window w ON w.id = h.window_id
        WHERE h.repo_id = a.repo_id AND h.path = a.path AND w.run_id = ?1
    )
