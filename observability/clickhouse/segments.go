package clickhouse

import "strings"

// SegmentQueries returns queries that read a bucket directly, by name: records_by_type, text and
// tokens_by_day. They need no table. Their parameters bucket, key, secret and, for text, conversation
// have the form {name:String}.
func SegmentQueries() map[string]string {
	queries := map[string]string{}
	text, _ := files.ReadFile("sql/segments.sql") // embedded file
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		queries[name] = strings.TrimSuffix(uncommented(text), ";")
	}
	return queries
}
