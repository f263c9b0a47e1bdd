// Package clickhouse stores observability events in ClickHouse and reads them.
//
// Commands and authors call it: [Open] connects, [Database.Migrate] creates or upgrades the tables,
// [NewSink] returns a sink for package actors, and [Database.Events] and [Database.Summary] run
// queries. It uses a server by the native protocol or by HTTP, and a bucket for the claims of
// migrations.
//
// Events are rows of the table events_raw, a ReplacingMergeTree whose key ends in the id of the event.
// Readers use the view events, which shows each event once. Hourly aggregates are refreshed from it
// every ten minutes; the files in folder migrations describe all tables.
//
// Guarantees:
//
//  1. A Write that returned nil is stored. A failed one may be repeated, also in other groups: the
//     view has every event once.
//  2. An event is read as it was written, to the byte of its JSON. The exception is a time outside
//     1970 to 2105, which is clamped to that range of the server's hours.
//  3. Migrations may run on several nodes at once, be interrupted anywhere, and be repeated.
//  4. After a restart of the server, or with another of its hosts, the next call reconnects.
//
// A Database and a Sink are safe for concurrent use. They start no goroutines. The driver has some
// during a call, which end with it, and connections until Close.
//
// After a crash nothing needs repair. A remaining claim of a migration delays the next one by a
// bounded time.
package clickhouse
