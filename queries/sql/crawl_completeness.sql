-- Windows and hits of run ?1 by target and fork family.
SELECT
    w.target,
    w.fork,
    (
        SELECT count(*)
        FROM (
            SELECT DISTINCT h.repo_id, h.path
            FROM hit h
            JOIN crawl_window o ON o.id = h.window_id
            WHERE o.run_id = w.run_id AND o.target = w.target AND o.fork = w.fork
        )
    ) AS hits,
    0 AS unreachable,
    sum(iif(w.state = 'short', max(coalesce(w.total, 0) - w.delivered, 0), 0)) AS missing,
    sum(w.state = 'complete') AS complete,
    sum(w.state = 'short') AS short,
    sum(w.state = 'overflow') AS overflow,
    sum(w.state IN ('open', 'walking')) AS open
FROM crawl_window w
WHERE w.run_id = ?1
GROUP BY w.target, w.fork
ORDER BY w.target, w.fork DESC
