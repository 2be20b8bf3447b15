-- What run ?1 did to artifacts and repositories, over all its invocations.
SELECT
    (SELECT count(*) FROM artifact WHERE first_run = ?1) AS added,
    (
        SELECT count(DISTINCT v.artifact_id) FROM version v JOIN artifact a ON a.id = v.artifact_id
        WHERE v.first_run = ?1 AND a.first_run < ?1 AND a.presence = 'present'
    ) AS changed,
    (
        SELECT count(*) FROM artifact a JOIN version v ON v.artifact_id = a.id AND v.current = 1
        WHERE a.last_run = ?1 AND a.first_run < ?1 AND v.first_run < ?1 AND a.presence = 'present'
    ) AS unchanged,
    (SELECT count(*) FROM artifact WHERE presence_run = ?1 AND presence <> 'present') AS gone,
    (
        SELECT count(*) FROM artifact a JOIN repo r ON r.id = a.repo_id
        WHERE a.presence = 'present' AND (a.missed_run = ?1 OR r.missed_run = ?1)
    ) AS missed,
    (SELECT count(*) FROM repo WHERE checked_run = ?1) AS repos_checked,
    (SELECT count(*) FROM repo WHERE missed_run = ?1 AND presence = 'present') AS repos_missed,
    (SELECT count(*) FROM repo WHERE presence_run = ?1 AND presence = 'gone') AS repos_gone,
    (SELECT count(*) FROM repo WHERE presence_run = ?1 AND presence = 'empty') AS repos_empty,
    (SELECT count(*) FROM repo WHERE presence_run = ?1 AND presence = 'blocked') AS repos_blocked,
    (SELECT count(*) FROM repo WHERE presence_run = ?1 AND presence = 'private') AS repos_private,
    (SELECT count(DISTINCT repo_id) FROM repo_name WHERE first_run = ?1) AS repos_renamed,
    (SELECT count(*) FROM repo WHERE checked_run = ?1 AND is_archived = 1) AS repos_archived,
    (
        SELECT count(*) FROM repo r
        WHERE r.first_run = ?1 AND EXISTS (SELECT 1 FROM artifact WHERE repo_id = r.id AND presence = 'present')
    ) AS repos_added
