-- Figures by hour, computed anew from all events every ten minutes: what comes late or
-- twice makes them wrong for ten minutes at most.
-- min: 1

-- Retries of a turn count all failed calls before it, also those that were withdrawn: of
-- these, the turn that follows has them.
CREATE MATERIALIZED VIEW IF NOT EXISTS usage_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (hour, agent, provider, model)
AS SELECT
    toStartOfHour(ts) AS hour, agent, provider, model,
    count() AS turns,
    countIf(is_error) AS errors,
    sumIf(retries, NOT dropped) AS retried,
    sum(input_tokens) AS input, sum(output_tokens) AS output,
    sum(cache_read_tokens) AS cache_read, sum(cache_write_tokens) AS cache_write,
    sum(reasoning_tokens) AS reasoning, sum(total_tokens) AS total,
    sum(cost) AS cost_usd
FROM events
WHERE type = 'turn'
GROUP BY hour, agent, provider, model;

-- One row for each measure: admission (what its sender waits for, counted in the hour of
-- the outcome, which tells it), queue (admission to first attempt), first_token and turn
-- (name is the model), tool (name is the tool), settlement (admission to outcome). Only a
-- first attempt has queued_ms.
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (measure, hour, agent, name)
AS SELECT
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
    FROM events WHERE type = 'turn' AND NOT is_error
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

CREATE MATERIALIZED VIEW IF NOT EXISTS outcomes_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (hour, agent, outcome, error_type)
AS SELECT
    toStartOfHour(ts) AS hour, agent, outcome, error_type,
    count() AS submissions,
    sum(attempt) AS attempts
FROM events
WHERE type = 'submission_settled'
GROUP BY hour, agent, outcome, error_type;

-- waited_ms sums the time between admission and first attempt, of those that began.
CREATE MATERIALIZED VIEW IF NOT EXISTS queue_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (hour, agent)
AS SELECT
    toStartOfHour(ts) AS hour, agent,
    countIf(type = 'submission_queued') AS admitted,
    countIf(first) AS begun,
    countIf(type = 'submission_settled') AS settled,
    sumIf(assumeNotNull(queued_ms), first) AS waited_ms,
    maxIf(assumeNotNull(queued_ms), first) AS longest_ms
FROM
(
    SELECT type, ts, agent, queued_ms, type = 'submission_running' AND queued_ms IS NOT NULL AS first
    FROM events
    WHERE type IN ('submission_queued', 'submission_running', 'submission_settled')
)
GROUP BY hour, agent;

CREATE MATERIALIZED VIEW IF NOT EXISTS recoveries_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (hour, agent)
AS SELECT
    toStartOfHour(ts) AS hour, agent,
    countIf(type = 'submission_running') AS recovered_attempts,
    countIf(type = 'submission_recovery') AS recoveries,
    countIf(fenced) AS fences
FROM events
WHERE (type = 'submission_running' AND recovered) OR type = 'submission_recovery'
GROUP BY hour, agent;

-- Conversations of several hours or agents do not add up: who is in two is in both.
CREATE MATERIALIZED VIEW IF NOT EXISTS active_hourly
REFRESH EVERY 10 MINUTE
ENGINE = MergeTree ORDER BY (hour, agent)
AS SELECT
    toStartOfHour(ts) AS hour, agent,
    uniqExact(instance_id) AS conversations,
    uniqExactIf(submission_id, submission_id != '') AS submissions,
    count() AS durable_events
FROM events
WHERE NOT live AND instance_id != ''
GROUP BY hour, agent;
