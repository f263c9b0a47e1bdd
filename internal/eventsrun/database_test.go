package eventsrun_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// ask returns the rows of a query, each split at its tabs.
func (c *cluster) ask(ctx context.Context, query string) (rows [][]string, err error) {
	at := url.URL{Scheme: "http", Host: c.server.HTTPAddr(), Path: "/", RawQuery: url.Values{"database": {database}, "query": {query}}.Encode()}
	body, _, err := c.Client.Do(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", query, err)
	}
	for line := range strings.Lines(string(body)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows, nil
}

func (c *cluster) number(ctx context.Context, query string) (int, error) {
	rows, err := c.ask(ctx, query)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, fmt.Errorf("ask %s: rows %q, want one number", query, rows)
	}
	return strconv.Atoi(rows[0][0])
}

// liveRows describes the live events of one node in the database.
type liveRows struct {
	ids     int // distinct
	numbers int // distinct
	highest int // of the numbers, -1 if there are none
}

// liveOf returns the live events of all nodes by incarnation.
func (c *cluster) liveOf(ctx context.Context) (map[string]liveRows, error) {
	rows, err := c.ask(ctx, "SELECT splitByChar('/', event_id)[2], uniqExact(event_id), uniqExact(splitByChar('/', event_id)[3]), max(toInt64(splitByChar('/', event_id)[3]))"+
		" FROM events_raw WHERE live GROUP BY 1")
	if err != nil {
		return nil, err
	}
	out := map[string]liveRows{}
	for _, row := range rows {
		var n [3]int
		for i := range n {
			if n[i], err = strconv.Atoi(row[1+i]); err != nil {
				return nil, fmt.Errorf("live events of %q: %w", row, err)
			}
		}
		out[row[0]] = liveRows{n[0], n[1], n[2]}
	}
	return out, nil
}

// durable reads the durable events of a conversation from the database, as JSON.
func durable(ctx context.Context, db *clickhouse.Database, at conversation.Address) (lines []string, err error) {
	for e, err := range db.Events(ctx, clickhouse.Filter{Agent: at.Agent, Instance: at.ID}) {
		if err != nil {
			return nil, err
		}
		if e.Live() {
			continue
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(line))
	}
	return lines, nil
}
