// Package clickhouse stores observability events in ClickHouse and reads them back.
//
// Commands and authors call it: [Open] connects, [Database.Migrate] makes or upgrades
// the tables, [NewSink] gives package actors a sink, [Database.Events] and
// [Database.Summary] answer. It calls a server by the native protocol or by HTTP, and a
// bucket for the claims of migrations.
//
// Events are rows of the table events_raw, a ReplacingMergeTree whose key ends in the id
// of the event. Everybody reads the view events, which shows each event once. Tables of
// figures by hour are refreshed from it every ten minutes; the files in folder
// migrations describe all of them.
//
// Guarantees:
//
//  1. A Write that returned nil is stored. One that failed may be repeated, in other
//     groups too: the view has every event once.
//  2. An event that is read is the one that was written, to the byte of its JSON. The
//     exception is a moment outside 1970 to 2105, which is stored as the nearest one
//     within: the hours of the server reach no further.
//  3. Migrations may run on several nodes at once, be interrupted anywhere, and be
//     repeated.
//  4. Nothing here holds on to a server: after a restart, or with another host that was
//     named, the next call connects anew.
//
// A Database and a Sink are safe for concurrent use. They start no goroutines; the
// driver has some during a call, which end with it, and connections until Close.
//
// After a crash nothing is left to repair. A claim of a migration may be left in the
// bucket, which costs the next one a bounded wait.
package clickhouse
