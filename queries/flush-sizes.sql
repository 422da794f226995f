-- How large are TLB flushes, and how many CPUs do they ask?
-- counted: `flushed`, what was flushed as mappings changed, locally or on other CPUs too; `asked_for`, the range
-- asked for where a probe recorded it. Ranges above the kernel's ceiling (33 pages, if nobody changed it) become full
-- flushes, so only asked_for shows their size. Pages are of 4 KiB if others were asked.
WITH sized AS (
  SELECT host, trace, 'flushed' AS counted, pages AS size, targets, interrupts, wait_ns,
    CASE WHEN reason = 'remote_send' THEN 1 ELSE 0 END AS remote
  FROM flushes
  WHERE in_window AND reason IN ('local_mm_shootdown', 'remote_send')
  UNION ALL
  SELECT host, trace, 'asked_for' AS counted, range_pages AS size, targets, interrupts, wait_ns,
    CASE WHEN reason = 'remote_send' THEN 1 ELSE 0 END AS remote
  FROM flushes
  WHERE in_window AND range_pages IS NOT NULL
),
bucketed AS (
  SELECT host, trace, counted, remote, targets, interrupts, wait_ns,
    CASE WHEN size = -1 THEN 'full' WHEN size = 0 THEN 'empty' WHEN size IS NULL THEN 'unknown' ELSE 'pages' END
      AS extent,
    CASE
      WHEN size < 1 THEN NULL
      WHEN size < 2 THEN 1
      WHEN size < 4 THEN 2
      WHEN size < 8 THEN 4
      WHEN size < 16 THEN 8
      WHEN size < 32 THEN 16
      WHEN size < 64 THEN 32
      WHEN size < 128 THEN 64
      WHEN size < 256 THEN 128
      WHEN size < 512 THEN 256
      WHEN size < 1024 THEN 512
      WHEN size < 4096 THEN 1024
      WHEN size < 16384 THEN 4096
      WHEN size < 65536 THEN 16384
      WHEN size >= 65536 THEN 65536
    END AS pages_from,
    CASE
      WHEN size < 1 THEN NULL
      WHEN size < 2 THEN 1
      WHEN size < 4 THEN 3
      WHEN size < 8 THEN 7
      WHEN size < 16 THEN 15
      WHEN size < 32 THEN 31
      WHEN size < 64 THEN 63
      WHEN size < 128 THEN 127
      WHEN size < 256 THEN 255
      WHEN size < 512 THEN 511
      WHEN size < 1024 THEN 1023
      WHEN size < 4096 THEN 4095
      WHEN size < 16384 THEN 16383
      WHEN size < 65536 THEN 65535
    END AS pages_to
  FROM sized
)
SELECT host, trace, counted, extent,
  CAST(pages_from AS BIGINT) AS pages_from,
  CAST(pages_to AS BIGINT) AS pages_to,
  CAST(COUNT(*) AS BIGINT) AS flushes,
  CAST(COUNT(CASE WHEN remote = 1 THEN 1 END) AS BIGINT) AS remote,
  CAST(COUNT(CASE WHEN remote = 1 AND targets = 0 THEN 1 END) AS BIGINT) AS asked_nobody,
  CAST(COALESCE(SUM(CASE WHEN remote = 1 THEN targets END), 0) AS BIGINT) AS targets,
  CAST(COALESCE(SUM(CASE WHEN remote = 1 THEN interrupts END), 0) AS BIGINT) AS interrupts,
  CAST(COUNT(wait_ns) AS BIGINT) AS with_wait,
  CAST(COALESCE(SUM(wait_ns), 0) AS BIGINT) AS wait_ns
FROM bucketed
GROUP BY host, trace, counted, extent, pages_from, pages_to
ORDER BY host, trace, counted, extent, pages_from NULLS LAST
