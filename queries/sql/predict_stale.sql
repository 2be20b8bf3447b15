-- Blobs whose predictions are missing, or of another model, segmenter or path than they would be made with now.
SELECT s.blob_id, s.path, b.size, s.packed
FROM segmentation s
JOIN blob b ON b.id = s.blob_id
LEFT JOIN prediction p ON p.blob_id = s.blob_id
WHERE s.blob_id > ?1 AND s.version = ?2 AND (p.segmenter IS NOT ?2 OR p.model IS NOT ?3 OR p.path IS NOT s.path)
ORDER BY s.blob_id
LIMIT ?4
