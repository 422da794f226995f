-- Which traces could not be exported, and why. `attempts` counts all tries since the last one that went well.
SELECT host, trace, error, exit_code, attempts, failed_at, ttwu_version, path
FROM failures
ORDER BY host, trace
