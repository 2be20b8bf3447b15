 ON CONFLICT (repo_id, path) DO UPDATE SET
    platform = excluded.platform,
    target = excluded.target,
    mode = excluded.mode,
    resolves_to = excluded.resolves_to,
    presence = 'present',
    presence_run = excluded.last_run,
    last_run = excluded.last_run
RETURNING id, repo_id, path
