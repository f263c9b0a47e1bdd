-- Events, one row for each, and the view that everybody reads.
-- min: 1

-- The key makes an event replace itself and no other: event_id is unique, and an event
-- that is made again has the same type, agent and moment, so also the same partition.
-- Almost every query names types and a time, many an agent, hardly one all three of
-- type, agent and id: so the type is first, which also keeps deltas, the many, away
-- from those that count turns. The primary key leaves out the id, which would make it
-- large and nobody searches a range of. Submissions and instances are found by bloom
-- filters within the days.
CREATE TABLE IF NOT EXISTS events_raw
(
    event_id String CODEC(ZSTD(1)),
    event_index Int64,
    seq Int64,
    live Bool,
    ts DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    type LowCardinality(String),
    v UInt8,

    agent LowCardinality(String),
    instance_id String CODEC(ZSTD(1)),
    conversation_id String CODEC(ZSTD(1)),
    submission_id String CODEC(ZSTD(1)),
    session String CODEC(ZSTD(1)),
    parent_session String CODEC(ZSTD(1)),
    task_id String CODEC(ZSTD(1)),
    harness LowCardinality(String),
    operation_id String CODEC(ZSTD(1)),
    turn_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),

    kind LowCardinality(String),
    message_kind LowCardinality(String),
    outcome LowCardinality(String),
    reason LowCardinality(String),
    purpose LowCardinality(String),
    recovery LowCardinality(String),
    level LowCardinality(String),
    is_error Bool,
    error_type LowCardinality(String),
    error_message String CODEC(ZSTD(1)),

    attempt UInt32,
    max_attempts UInt32,
    recovered Bool,
    fenced Bool,
    dropped Bool,
    retries UInt32,

    duration_ms Nullable(Int64),
    work_ms Nullable(Int64),
    total_ms Nullable(Int64),
    admission_ms Nullable(Int64),
    queued_ms Nullable(Int64),
    first_token_ms Nullable(Int64),

    provider LowCardinality(String),
    model LowCardinality(String),
    response_model LowCardinality(String),
    api LowCardinality(String),
    finish_reason LowCardinality(String),
    input_tokens UInt64,
    output_tokens UInt64,
    cache_read_tokens UInt64,
    cache_write_tokens UInt64,
    reasoning_tokens UInt64,
    total_tokens UInt64,
    cost_input Float64,
    cost_output Float64,
    cost_cache_read Float64,
    cost_cache_write Float64,
    cost Float64,

    tool LowCardinality(String),
    tool_call_id String CODEC(ZSTD(1)),
    task_agent LowCardinality(String),
    messages_before UInt32,
    messages_after UInt32,
    estimated_tokens UInt64,
    bytes UInt64,

    payload String CODEC(ZSTD(3)),

    INDEX by_submission submission_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_instance instance_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(ts)
PRIMARY KEY (type, agent, ts)
ORDER BY (type, agent, ts, event_id)
SETTINGS ttl_only_drop_parts = 1;

-- No event is in two partitions, so the parts of each are merged by themselves; and the
-- ids of a submission are the same in all copies of an event, so they may skip parts.
CREATE VIEW IF NOT EXISTS events AS
SELECT * FROM events_raw FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1, use_skip_indexes_if_final = 1;
