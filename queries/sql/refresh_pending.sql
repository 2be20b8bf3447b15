-- Repositories that run ?1 has not looked at, the least recently checked first, after position (?2, ?3), at most ?5 of
-- them, if they hold or held artifacts of the platforms in the JSON list ?4.
SELECT
    r.id, r.node_id, r.owner, r.name, r.presence, coalesce(r.checked_at, 0) AS at, r.checked_head, r.pushed_at,
    r.default_branch,
    -- Not looked at since a crawl: the commit that search gave for every artifact, if it is one.
    (
        SELECT CASE WHEN min(v.commit_oid) = max(v.commit_oid) AND count(*) = count(v.commit_oid) THEN min(v.commit_oid) END
        FROM artifact a
        JOIN version v ON v.artifact_id = a.id AND v.current = 1
        WHERE a.repo_id = r.id AND a.presence = 'present'
    ) AS read_at,
    EXISTS (SELECT 1 FROM artifact a WHERE a.repo_id = r.id AND a.missed_run IS NOT NULL AND a.presence = 'present') AS missed,
    CASE WHEN r.last_run = ?1 THEN r.head END AS head_now
FROM repo r
WHERE
    r.source = 'github'
    AND r.presence <> 'opted_out'
    AND r.checked_run IS NOT ?1
    AND (coalesce(r.checked_at, 0), r.id) > (?2, ?3)
    AND EXISTS (
        SELECT 1 FROM artifact a WHERE a.repo_id = r.id AND a.platform IN (SELECT value FROM json_each(?4))
    )
ORDER BY coalesce(r.checked_at, 0), r.id
LIMIT ?5
