-- A turn that ended for a reason that is not the model's, such as a drain of its node, is
-- no error, and its duration is not the model's: latency_hourly leaves it out.
-- min: 1

ALTER TABLE latency_hourly MODIFY QUERY
SELECT
    hour, agent, measure, name,
    count() AS n,
    quantilesExact(0.5, 0.9, 0.99)(ms) AS q,
    q[1] AS p50, q[2] AS p90, q[3] AS p99,
    max(ms) AS slowest
FROM
(
    SELECT toStartOfHour(ts) AS hour, agent, 'queue' AS measure, '' AS name, assumeNotNull(queued_ms) AS ms
    FROM events WHERE type = 'submission_running' AND queued_ms IS NOT NULL
    UNION ALL
    SELECT toStartOfHour(ts), agent, 'first_token', toString(model), assumeNotNull(first_token_ms)
    FROM events WHERE type = 'turn' AND first_token_ms IS NOT NULL
    UNION ALL
    SELECT toStartOfHour(ts), agent, 'turn', toString(model), assumeNotNull(duration_ms)
    FROM events WHERE type = 'turn' AND NOT is_error AND finish_reason NOT IN ('aborted', 'handover', 'interrupted')
    UNION ALL
    SELECT toStartOfHour(ts), agent, 'tool', toString(tool), assumeNotNull(duration_ms)
    FROM events WHERE type = 'tool' AND NOT is_error
    UNION ALL
    SELECT toStartOfHour(ts), agent, 'admission', '', assumeNotNull(admission_ms)
    FROM events WHERE type = 'submission_settled' AND admission_ms IS NOT NULL
    UNION ALL
    SELECT toStartOfHour(ts), agent, 'settlement', '', assumeNotNull(total_ms)
    FROM events WHERE type = 'submission_settled'
)
GROUP BY hour, agent, measure, name;
