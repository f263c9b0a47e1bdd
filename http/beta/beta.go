// Package beta encodes the event streams of the beta protocol without a connection: the parameters of
// a read, the order of their checks, and the metadata of a response. Package http serves it.
//
// A stream has its own path, "agents/<name>/<id>" or "runs/<id>". An offset is the number of an event,
// written as "0000000000000000_" and 16 digits, or -1 before the first. A read returns the events
// after it. All functions are pure.
package beta

import (
	"encoding/base64"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Headers of a stream, in addition to those of the current protocol.
const (
	HeaderClosed = "Stream-Closed"
	HeaderCursor = "Stream-Cursor"
)

// PageEvents bounds the events of one response, or of one cycle of a live one.
const PageEvents = 100

// Live is the mode of a read after it has reached the end.
type Live string

// The live modes. The zero value is a catch-up read.
const (
	CatchUp  Live = ""
	LongPoll Live = "long-poll"
	SSE      Live = "sse"
)

// Read is a parsed query.
type Read struct {
	// After is the number of the event to read after, -1 for the start. Now selects the end instead,
	// and Tail, unless 0, the last Tail events; both leave After -1.
	After int64
	Now   bool
	Tail  int64
	Live  Live
	// Cursor is the client's cursor, "" for none.
	Cursor string
}

// ParseRead parses a query. It checks in the order of the protocol: a repeated offset, a repeated
// tail, its value, live without an offset, the value of live, the value of the offset.
func ParseRead(q url.Values) (Read, error) {
	r := Read{After: -1, Cursor: q.Get("cursor")}
	offsets, tails := q["offset"], q["tail"]
	switch {
	case len(offsets) > 1:
		return r, invalid("The query parameter offset must occur once, not %d times.", len(offsets))
	case len(tails) > 1:
		return r, invalid("The query parameter tail must occur once, not %d times.", len(tails))
	}
	if len(tails) == 1 {
		var ok bool
		if r.Tail, ok = parseTail(tails[0]); !ok {
			return r, invalid("The query parameter tail is %.40q; it must be an integer of 1 or more.", tails[0])
		}
	}
	if live, ok := q["live"]; ok {
		switch r.Live = Live(live[0]); {
		case len(offsets) == 0:
			return r, invalid("The query parameter live needs an offset: -1, now, or one that a response returned.")
		case r.Live != LongPoll && r.Live != SSE:
			return r, invalid("The query parameter live is %.40q; it must be long-poll or sse.", live[0])
		}
	}
	if len(offsets) == 0 {
		return r, nil
	}
	switch offset := offsets[0]; offset {
	case "-1":
	case "now":
		r.Now, r.Tail = true, 0
	default:
		n, err := conversation.ParseOffset(offset)
		if err != nil {
			return r, invalid("The query parameter offset must be -1, now, or an offset that a response returned.")
		}
		r.After, r.Tail = int64(n), 0
	}
	return r, nil
}

// From returns the number to read after in a stream whose last event is end.
func (r Read) From(end int64) int64 {
	switch {
	case r.Now:
		return end
	case r.Tail > 0:
		return max(-1, end-r.Tail)
	}
	return r.After
}

// parseTail parses [1-9][0-9]*. An overflowing number exceeds the length of any stream.
func parseTail(s string) (int64, bool) {
	if !digits(s) || s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

func digits(s string) bool {
	return s != "" && strings.TrimLeft(s, "0123456789") == ""
}

// Offset encodes the number of an event.
func Offset(n int64) string { return conversation.Offset(n).String() }

// ETag identifies the result of a read of a stream from start through next. done is set if the stream
// is closed and no events follow.
func ETag(stream string, start, next int64, done bool) string {
	tag := base64.StdEncoding.EncodeToString([]byte(stream)) + ":" + Offset(start) + ":" + Offset(next)
	if done {
		tag += ":c"
	}
	return `"` + tag + `"`
}

// Cursors count intervals of 20 s since an epoch. Caches between clients and server use them to
// separate responses of different times.
const (
	cursorEpoch    = 1_728_432_000_000 // ms
	cursorInterval = 20_000            // ms
	maxCursorJump  = 180
)

// Cursor returns the cursor of a response. If the client's cursor is not behind the clock, it is
// advanced by jump, 1 to 180. So the client never gets the same cursor again.
func Cursor(now time.Time, asked string, jump int64) string {
	current := (now.UnixMilli() - cursorEpoch) / cursorInterval
	if n, ok := leading(asked); ok && n >= current {
		current = n + min(max(jump, 1), maxCursorJump)
	}
	return strconv.FormatInt(current, 10)
}

// leading parses the number at the beginning of a text.
func leading(s string) (int64, bool) {
	s = strings.TrimLeft(s, " \t\n")
	end := len(s) - len(strings.TrimLeft(s, "0123456789"))
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return n, err == nil && n < math.MaxInt64-maxCursorJump
}

// AppendControl appends the JSON of a control frame, which marks the end of a cycle.
func AppendControl(dst []byte, next int64, upToDate, closed bool, cursor string) []byte {
	dst = append(dst, `{"streamNextOffset":"`...)
	dst, _ = conversation.Offset(next).AppendText(dst)
	dst = append(dst, '"')
	switch {
	case upToDate && closed:
		return append(dst, `,"streamClosed":true}`...)
	case upToDate:
		return append(append(append(dst, `,"streamCursor":"`...), cursor...), `","upToDate":true}`...)
	}
	return append(append(append(dst, `,"streamCursor":"`...), cursor...), `"}`...)
}

func invalid(format string, args ...any) error {
	return conversation.Errorf(conversation.CodeInvalidRequest, format, args...)
}
