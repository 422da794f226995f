-- What did the task that lost most do, moment by moment?
-- The worst task of each trace; write another condition into `chosen`, such as WHERE k.pid = 270, to follow others.
-- why: of a wait its verdict (any CPU allowed), of a slice how it ended. by: who woke it. Stamps are the trace's
-- clock.
WITH ordered AS (
  SELECT k.host, k.trace, k.task, k.pid, k.name,
    COALESCE(k.lost_any_ns, 0) AS lost_ns, COALESCE(k.wait_ns, 0) AS wait_ns, COALESCE(k.run_ns, 0) AS run_ns
  FROM tasks k
  JOIN traces t ON t.host = k.host AND t.trace = k.trace
  WHERE t.recorder_counted OR NOT k.recorder
),
numbered AS (
  SELECT host, trace, task, pid, name,
    CAST(ROW_NUMBER() OVER (PARTITION BY host, trace ORDER BY lost_ns DESC, wait_ns DESC, run_ns DESC,
      task DESC) AS BIGINT) AS nth
  FROM ordered
),
chosen AS (
  SELECT k.host, k.trace, k.task, k.pid, k.name
  FROM numbered k
  WHERE k.nth = 1
),
moments AS (
  SELECT s.host, s.trace, s.task, c.name, c.pid, 'running' AS state, s.cpu AS cpu, s.start_ns AS start_ns, s.end_ns
    AS end_ns,
    s.end_state AS why, CAST(NULL AS INTEGER) AS by_task
  FROM slices s
  JOIN chosen c ON c.host = s.host AND c.trace = s.trace AND c.task = s.task
  UNION ALL
  SELECT w.host, w.trace, w.task, c.name, c.pid, 'waiting' AS state, w.last_cpu AS cpu, w.start_ns AS start_ns,
    w.end_ns AS end_ns,
    w.verdict_any AS why, w.waker AS by_task
  FROM waits w
  JOIN chosen c ON c.host = w.host AND c.trace = w.trace AND c.task = w.task
)
SELECT m.host AS host, m.trace AS trace, m.name AS name, m.pid AS pid, m.start_ns AS start_ns, m.end_ns AS end_ns,
  m.end_ns - m.start_ns AS lasted_ns, m.state AS state, m.cpu AS cpu, m.why AS why, b.name AS woken_by, b.pid
    AS woken_by_pid
FROM moments m
LEFT JOIN tasks b ON b.host = m.host AND b.trace = m.trace AND b.task = m.by_task
ORDER BY host, trace, start_ns NULLS LAST, state, end_ns NULLS LAST, cpu NULLS LAST, why NULLS LAST,
  woken_by NULLS LAST, woken_by_pid NULLS LAST
