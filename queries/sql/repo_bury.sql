-- What is left of a repository that was opted out: names, why, and which run.
UPDATE repo SET
    is_fork = NULL,
    is_archived = NULL,
    is_private = NULL,
    stars = NULL,
    language = NULL,
    license_api = NULL,
    license_spdx = NULL,
    license_tier = NULL,
    license_evidence = NULL,
    license_version = NULL,
    default_branch = NULL,
    head = NULL,
    pushed_at = NULL,
    facts_at = NULL,
    presence = ?1,
    presence_why = ?2,
    presence_run = ?3
WHERE id = ?4
