-- Facts that are not known (NULL) leave the stored ones as they are.
UPDATE repo SET
    node_id = coalesce(?1, node_id),
    key = ?2,
    owner = ?3,
    name = ?4,
    is_fork = coalesce(?5, is_fork),
    is_archived = coalesce(?6, is_archived),
    is_private = coalesce(?7, is_private),
    stars = coalesce(?8, stars),
    language = coalesce(?9, language),
    license_api = coalesce(?10, license_api),
    default_branch = coalesce(?11, default_branch),
    head = coalesce(?12, head),
    pushed_at = coalesce(?13, pushed_at),
    facts_at = coalesce(?14, facts_at),
    last_run = ?15
WHERE id = ?16
