-- Where did each CPU's time go?
-- In nanoseconds of the window: lost is idle time matched to a task that waited elsewhere and could have run there,
-- transit is time in which a task was on its way to it. The shares are of all its time in the window.
WITH sums AS (
  SELECT host, trace, cpu, llc, core, node, unknown_ns, running_ns, transit_ns,
    waiting_llc_core_seen_ns + waiting_llc_smt_seen_ns + waiting_machine_seen_ns AS lost_seen_ns, idle_seen_ns,
    waiting_llc_core_any_ns + waiting_llc_smt_any_ns + waiting_machine_any_ns AS lost_any_ns, idle_any_ns,
    switches, wakeups_made
  FROM cpus
),
whole AS (
  SELECT host, trace, cpu, unknown_ns + running_ns + transit_ns + lost_any_ns + idle_any_ns AS total_ns
  FROM sums
)
SELECT s.host AS host, s.trace AS trace, s.cpu AS cpu, s.llc AS llc, s.core AS core, s.node AS node,
  s.unknown_ns AS unknown_ns, s.running_ns AS running_ns, s.transit_ns AS transit_ns,
  s.lost_seen_ns AS lost_seen_ns, s.lost_any_ns AS lost_any_ns, s.idle_seen_ns AS idle_seen_ns, s.idle_any_ns
    AS idle_any_ns,
  CASE WHEN w.total_ns > 0 THEN CAST(s.running_ns AS DOUBLE) / CAST(w.total_ns AS DOUBLE) END AS running_share,
  CASE WHEN w.total_ns > 0 THEN CAST(s.lost_any_ns AS DOUBLE) / CAST(w.total_ns AS DOUBLE) END AS lost_any_share,
  s.switches AS switches, s.wakeups_made AS wakeups_made
FROM sums s
JOIN whole w ON w.host = s.host AND w.trace = s.trace AND w.cpu = s.cpu
ORDER BY host, trace, cpu
