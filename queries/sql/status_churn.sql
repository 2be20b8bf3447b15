-- The last ?1 runs that collected, newest first: what each saw first, found changed and found gone, and what was there
-- after it.
WITH recent AS (
    SELECT id, command, started_at, outcome FROM run
    WHERE command IN ('crawl', 'refresh', 'ingest') ORDER BY id DESC LIMIT ?1
),
added AS (SELECT first_run AS run, count(*) AS n FROM artifact GROUP BY 1),
changed AS (
    SELECT v.first_run AS run, count(DISTINCT v.artifact_id) AS n
    FROM version v JOIN artifact a ON a.id = v.artifact_id AND a.first_run < v.first_run GROUP BY 1
),
gone AS (SELECT presence_run AS run, count(*) AS n FROM artifact WHERE presence <> 'present' GROUP BY 1)
SELECT
    r.id, r.command, r.started_at, r.outcome,
    coalesce(a.n, 0) AS added, coalesce(c.n, 0) AS changed, coalesce(g.n, 0) AS gone,
    (SELECT coalesce(sum(n), 0) FROM added WHERE run <= r.id) - (SELECT coalesce(sum(n), 0) FROM gone WHERE run <= r.id) AS present
FROM recent r
LEFT JOIN added a ON a.run = r.id
LEFT JOIN changed c ON c.run = r.id
LEFT JOIN gone g ON g.run = r.id
ORDER BY r.id DESC
