-- Where did each LLC's time go?
-- Sums over its CPUs, in nanoseconds of the window; llc is null where the topology is not known. lost: idle time
-- matched to a task that waited elsewhere and could have run there. busiest and laziest tell how evenly its CPUs ran.
SELECT host, trace, llc,
  CAST(COUNT(*) AS BIGINT) AS cpus,
  CAST(COALESCE(SUM(unknown_ns), 0) AS BIGINT) AS unknown_ns,
  CAST(COALESCE(SUM(running_ns), 0) AS BIGINT) AS running_ns,
  CAST(COALESCE(SUM(transit_ns), 0) AS BIGINT) AS transit_ns,
  CAST(COALESCE(SUM(waiting_llc_core_seen_ns + waiting_llc_smt_seen_ns + waiting_machine_seen_ns), 0) AS BIGINT)
    AS lost_seen_ns,
  CAST(COALESCE(SUM(waiting_llc_core_any_ns + waiting_llc_smt_any_ns + waiting_machine_any_ns), 0) AS BIGINT)
    AS lost_any_ns,
  CAST(COALESCE(SUM(idle_seen_ns), 0) AS BIGINT) AS idle_seen_ns,
  CAST(COALESCE(SUM(idle_any_ns), 0) AS BIGINT) AS idle_any_ns,
  MAX(running_ns) AS busiest_ns,
  MIN(running_ns) AS laziest_ns
FROM cpus
GROUP BY host, trace, llc
ORDER BY host, trace, lost_any_ns DESC, llc NULLS LAST
