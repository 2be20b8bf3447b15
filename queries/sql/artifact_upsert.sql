 ON CONFLICT (repo_id, path) DO UPDATE SET
    platform = excluded.platform,
    target = excluded.target,
    mode = excluded.mode,
    -- Where a text points to is a judgement, and not undone by seeing the text again.
    resolves_to = CASE excluded.mode WHEN 'symlink' THEN excluded.resolves_to ELSE artifact.resolves_to END,
    presence = 'present',
    missed_run = NULL,
    presence_run = excluded.last_run,
    last_run = excluded.last_run
RETURNING id, repo_id, path
