-- Queries of a bucket without tables: ClickHouse reads the batches and segments of
-- docs/format.md in place. Parameters, for clickhouse-client
-- --param_bucket=... and so on:
--
--   bucket        http(s)://host[:port]/bucket[/prefix], without a trailing slash
--   key, secret   credentials that allow LIST and GET
--   conversation  the 32 digits of a conversation's folder
--
-- A line without a type is the header of a batch. The lines up to the next header are
-- its records. During a merge a batch may be in several objects. It is counted once,
-- by conversation, batch number and position. One thread reads, because the lines of
-- an object must stay in order.

-- name: records_by_type
-- Number and size of records by type, over all conversations.
SELECT type, count() AS records, uniqExact(conversation) AS conversations, sum(size) AS bytes
FROM
(
    SELECT conversation, seq, n - at AS place, any(kind) AS type, any(length(line)) AS size
    FROM
    (
        SELECT
            n, line, JSONExtractString(line, 'type') AS kind, splitByChar('/', file) AS parts, parts[-3] AS conversation,
            toInt64(splitByChar('-', parts[-1])[-1]) + countIf(kind = '') OVER w - 1 AS seq,
            maxIf(n, kind = '') OVER w AS at
        FROM
        (
            SELECT _path AS file, rowNumberInAllBlocks() AS n, line
            FROM s3({bucket:String} || '/*/*/{seg,log}/*', {key:String}, {secret:String}, 'LineAsString', 'line String', 'zstd')
        )
        WINDOW w AS (PARTITION BY file ORDER BY n)
    )
    WHERE kind != ''
    GROUP BY conversation, seq, place
)
GROUP BY type
ORDER BY records DESC, type
SETTINGS max_threads = 1, input_format_parallel_parsing = 0;

-- name: text
-- The text of a conversation by message, of users and of the model, including
-- withdrawn text. Text of subagents is omitted.
SELECT
    message, any(role) AS role, min((seq, place)) AS first,
    arrayStringConcat(arrayMap(t -> t.3, arraySort(groupArray((seq, place, said))))) AS text
FROM
(
    SELECT
        seq, n - at AS place,
        any(JSONExtractString(line, 'message')) AS message,
        any(if(kind = 'delta', 'assistant', 'user')) AS role,
        any(if(kind = 'delta', JSONExtractString(line, 'text'), JSONExtractString(line, 'delivery', 'body'))) AS said
    FROM
    (
        SELECT
            n, line, JSONExtractString(line, 'type') AS kind, splitByChar('/', file) AS parts,
            toInt64(splitByChar('-', parts[-1])[-1]) + countIf(kind = '') OVER w - 1 AS seq,
            maxIf(n, kind = '') OVER w AS at
        FROM
        (
            SELECT _path AS file, rowNumberInAllBlocks() AS n, line
            FROM s3({bucket:String} || '/' || left({conversation:String}, 2) || '/' || {conversation:String} || '/{seg,log}/*',
                {key:String}, {secret:String}, 'LineAsString', 'line String', 'zstd')
        )
        WINDOW w AS (PARTITION BY file ORDER BY n)
    )
    WHERE kind = 'submission_admitted'
        OR kind = 'delta' AND JSONExtractString(line, 'kind') = 'text' AND NOT JSONHas(line, 'child')
    GROUP BY seq, place
)
GROUP BY message
ORDER BY first
SETTINGS max_threads = 1, input_format_parallel_parsing = 0;

-- name: tokens_by_day
-- Tokens of completed steps by day and model, of all conversations and subagents.
SELECT
    day, model, count() AS steps,
    sum(usage.1) AS input, sum(usage.2) AS output, sum(usage.3) AS cache_read, sum(usage.4) AS cache_write
FROM
(
    SELECT
        conversation, seq, n - at AS place,
        any(toDate(left(JSONExtractString(line, 'at'), 10))) AS day,
        any(JSONExtractString(line, 'model')) AS model,
        any((JSONExtractUInt(line, 'usage', 'input'), JSONExtractUInt(line, 'usage', 'output'),
            JSONExtractUInt(line, 'usage', 'cacheRead'), JSONExtractUInt(line, 'usage', 'cacheWrite'))) AS usage
    FROM
    (
        SELECT
            n, line, JSONExtractString(line, 'type') AS kind, splitByChar('/', file) AS parts, parts[-3] AS conversation,
            toInt64(splitByChar('-', parts[-1])[-1]) + countIf(kind = '') OVER w - 1 AS seq,
            maxIf(n, kind = '') OVER w AS at
        FROM
        (
            SELECT _path AS file, rowNumberInAllBlocks() AS n, line
            FROM s3({bucket:String} || '/*/*/{seg,log}/*', {key:String}, {secret:String}, 'LineAsString', 'line String', 'zstd')
        )
        WINDOW w AS (PARTITION BY file ORDER BY n)
    )
    WHERE kind = 'step_completed'
    GROUP BY conversation, seq, place
)
GROUP BY day, model
ORDER BY day, model
SETTINGS max_threads = 1, input_format_parallel_parsing = 0;
