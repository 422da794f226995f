-- Which hosts lose most to missed idle CPUs, and with which kernel release: the share of their CPU time that went by
-- on CPUs that ran nothing, matched to tasks that were put on a busy one. The truth lies between `seen` and `any`
-- (where a task may run, if the trace does not tell). Traces without topology cannot tell; they are counted only.
WITH missed AS (
    SELECT
        host,
        trace,
        SUM(CASE WHEN verdict_seen IN ('stacked-prev', 'stacked-pull', 'prev', 'other', 'other-llc')
            THEN lost_seen_ns ELSE 0 END) AS seen_ns,
        SUM(CASE WHEN verdict_any IN ('stacked-prev', 'stacked-pull', 'prev', 'other', 'other-llc')
            THEN lost_any_ns ELSE 0 END) AS any_ns
    FROM waits
    GROUP BY host, trace
),
judged AS (
    SELECT
        traces.host,
        traces.kernel_release,
        CASE WHEN traces.llcs IS NULL THEN 0 ELSE 1 END AS known,
        CASE WHEN traces.llcs IS NULL THEN NULL ELSE (traces.end_ns - traces.start_ns) * traces.cpus END AS cpu_ns,
        CASE WHEN traces.llcs IS NULL THEN NULL ELSE COALESCE(missed.seen_ns, 0) END AS seen_ns,
        CASE WHEN traces.llcs IS NULL THEN NULL ELSE COALESCE(missed.any_ns, 0) END AS any_ns
    FROM traces
    LEFT JOIN missed ON traces.host = missed.host AND traces.trace = missed.trace
)
SELECT
    host,
    kernel_release,
    COUNT(*) AS traces,
    COUNT(*) - SUM(known) AS without_topology,
    ROUND(SUM(seen_ns) / 1000000.0, 1) AS lost_seen_ms,
    ROUND(SUM(any_ns) / 1000000.0, 1) AS lost_any_ms,
    ROUND(100.0 * SUM(seen_ns) / SUM(cpu_ns), 3) AS lost_seen_percent,
    ROUND(100.0 * SUM(any_ns) / SUM(cpu_ns), 3) AS lost_any_percent
FROM judged
GROUP BY host, kernel_release
ORDER BY lost_seen_percent DESC NULLS LAST, host, kernel_release
