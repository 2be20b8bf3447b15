SELECT
    (SELECT count(*) FROM artifact WHERE presence = 'present') AS artifacts,
    (SELECT count(*) FROM blob) AS blobs,
    (SELECT count(DISTINCT repo_id) FROM artifact WHERE presence = 'present') AS repos,
    (SELECT count(*) FROM version) AS versions,
    (SELECT coalesce(sum(size), 0) FROM blob) AS bytes,
    (SELECT coalesce(sum(items), 0) FROM segmentation) AS items
