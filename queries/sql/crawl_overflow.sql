-- What no query of run ?1 delivered, by target and fork family: over single sizes with more hits than search delivers,
-- the total less what came. Wider windows that were split later show such hits, too; which of theirs have the size,
-- their contents tell.
SELECT target, fork, sum(unreachable)
FROM (
    SELECT
        w.target,
        w.fork,
        max(
            0,
            min(
                w.unreachable,
                w.total - (
                    SELECT count(*)
                    FROM (
                        SELECT DISTINCT h.repo_id, h.path
                        FROM crawl_window o
                        JOIN hit h ON h.window_id = o.id
                        LEFT JOIN blob b ON b.git_oid = h.blob_oid
                        WHERE
                            o.run_id = w.run_id AND o.target = w.target AND o.fork = w.fork
                            AND o.lo <= w.lo AND (o.hi IS NULL OR o.hi >= w.lo)
                            AND ((o.lo = w.lo AND o.hi IS w.hi) OR b.size = w.lo)
                    )
                )
            )
        ) AS unreachable
    FROM crawl_window w
    WHERE w.run_id = ?1 AND w.state = 'overflow' AND w.unreachable > 0
)
GROUP BY target, fork
