package beta_test

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/http/beta"
)

func parse(t testing.TB, query string) (beta.Read, error) {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return beta.ParseRead(q)
}

const seventh = "0000000000000000_0000000000000007"

// covers: beta/15 nothing_is_the_start, beta/15 start, beta/18 returned_offset, beta/29 tail_with_now_is_nothing
// covers: beta/34 tail_without_a_cap
func TestParseRead(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		want  beta.Read
	}{
		"nothing_is_the_start":        {"", beta.Read{After: -1}},
		"start":                       {"offset=-1", beta.Read{After: -1}},
		"now":                         {"offset=now", beta.Read{After: -1, Now: true}},
		"returned_offset":             {"offset=" + seventh, beta.Read{After: 7}},
		"long_poll":                   {"offset=-1&live=long-poll", beta.Read{After: -1, Live: beta.LongPoll}},
		"sse":                         {"offset=now&live=sse", beta.Read{After: -1, Now: true, Live: beta.SSE}},
		"tail_of_the_start":           {"offset=-1&tail=3", beta.Read{After: -1, Tail: 3}},
		"tail_without_an_offset":      {"tail=3", beta.Read{After: -1, Tail: 3}},
		"tail_with_now_is_nothing":    {"offset=now&tail=3", beta.Read{After: -1, Now: true}},
		"tail_with_an_offset_neither": {"offset=" + seventh + "&tail=3", beta.Read{After: 7}},
		"tail_without_a_cap":          {"tail=" + strings.Repeat("9", 400), beta.Read{After: -1, Tail: math.MaxInt64}},
		"first_live_counts":           {"offset=-1&live=sse&live=bogus", beta.Read{After: -1, Live: beta.SSE}},
		"cursor":                      {"offset=-1&live=long-poll&cursor=17", beta.Read{After: -1, Live: beta.LongPoll, Cursor: "17"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, tt.query)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestParseReadRefused has a row for each check; all later checks would fail too.
// covers: beta/37, beta/18 offset_short, beta/19 live_needs_an_offset, beta/20 offset_twice_first, beta/21 offset_empty
// covers: beta/21 offset_last, beta/30 tail_third, beta/31 tail_negative, beta/32 tail_fraction, beta/32 tail_word
// covers: beta/33 tail_twice_second, beta/36 live_other_fifth
func TestParseReadRefused(t *testing.T) {
	for name, tt := range map[string]struct{ query, details string }{
		"offset_twice_first":     {"offset=-1&offset=x&tail=0&tail=0&live=x", "offset must occur once"},
		"tail_twice_second":      {"offset=x&tail=0&tail=0&live=x", "tail must occur once"},
		"tail_third":             {"tail=0&live=x", "tail is \"0\""},
		"tail_negative":          {"tail=-1", "tail is"},
		"tail_fraction":          {"tail=1.5", "tail is"},
		"tail_zeros_before":      {"tail=01", "tail is"},
		"tail_sign":              {"tail=%2B1", "tail is"},
		"tail_empty":             {"tail=", "tail is"},
		"tail_word":              {"tail=abc", "tail is"},
		"live_needs_an_offset":   {"live=x", "live needs an offset"},
		"live_empty_does_too":    {"live", "live needs an offset"},
		"live_other_fifth":       {"offset=x&live=poll", "live is \"poll\""},
		"live_other_case":        {"offset=-1&live=SSE", "live is"},
		"offset_last":            {"offset=banana", "offset must be"},
		"offset_empty":           {"offset=", "offset must be"},
		"offset_now_other_case":  {"offset=NOW", "offset must be"},
		"offset_one_integer":     {"offset=0000000000000007", "offset must be"},
		"offset_three":           {"offset=0_0_0", "offset must be"},
		"offset_negative":        {"offset=0_-1", "offset must be"},
		"offset_short":           {"offset=0_5", "offset must be"},
		"offset_other_first":     {"offset=1_0", "offset must be"},
		"offset_first_not_0":     {"offset=0000000000000001_0000000000000007", "offset must be"},
		"offset_of_15_digits":    {"offset=0000000000000000_000000000000007", "offset must be"},
		"offset_of_17_digits":    {"offset=0000000000000000_00000000000000007", "offset must be"},
		"offset_of_20_digits":    {"offset=0000000000000000_00000000000000000007", "offset must be"},
		"offset_first_short":     {"offset=000000000000000_0000000000000007", "offset must be"},
		"offset_signed":          {"offset=0000000000000000_%2B000000000000007", "offset must be"},
		"offset_white_space":     {"offset=" + seventh + "%20", "offset must be"},
		"offset_minus_2":         {"offset=-2", "offset must be"},
		"offset_not_a_number":    {"offset=0_" + strings.Repeat("9", 40), "offset must be"},
		"offset_fullwidth_digit": {"offset=0_%EF%BC%91", "offset must be"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, tt.query)
			if conversation.CodeOf(err) != conversation.CodeInvalidRequest || !strings.Contains(err.Error(), tt.details) {
				t.Errorf("got error %v, want %q", err, tt.details)
			}
		})
	}
}

// covers: beta/27
func TestFrom(t *testing.T) {
	for _, tt := range []struct {
		read      beta.Read
		end, want int64
	}{
		{beta.Read{After: -1}, 9, -1},
		{beta.Read{After: 4}, 9, 4},
		{beta.Read{After: 40}, 9, 40},
		{beta.Read{After: -1, Now: true}, 9, 9},
		{beta.Read{After: -1, Tail: 3}, 9, 6},
		{beta.Read{After: -1, Tail: 10}, 9, -1},
		{beta.Read{After: -1, Tail: math.MaxInt64}, 9, -1},
		{beta.Read{After: -1, Tail: 3}, -1, -1},
	} {
		if got := tt.read.From(tt.end); got != tt.want {
			t.Errorf("%+v with end %d: got %d, want %d", tt.read, tt.end, got, tt.want)
		}
	}
}

// covers: beta/45
func TestETag(t *testing.T) {
	const one = "0000000000000000_0000000000000000"
	if got, want := beta.ETag("runs/test", -1, 0, false), `"cnVucy90ZXN0:-1:`+one+`"`; got != want {
		t.Errorf("open: %s, want %s", got, want)
	}
	if got, want := beta.ETag("runs/test", -1, 0, true), `"cnVucy90ZXN0:-1:`+one+`:c"`; got != want {
		t.Errorf("closed: %s, want %s", got, want)
	}
}

// covers: beta/43
func TestCursor(t *testing.T) {
	now := time.Date(2024, 10, 9, 0, 1, 0, 0, time.UTC) // the fourth interval
	for asked, want := range map[string]string{"": "3", "x": "3", "2": "3", "3": "8", "10": "15", "10x": "15", strings.Repeat("9", 30): "3"} {
		if got := beta.Cursor(now, asked, 5); got != want {
			t.Errorf("after %q: %s, want %s", asked, got, want)
		}
	}
	if got := beta.Cursor(now, "3", 1000); got != "183" {
		t.Errorf("large jump: got %s", got)
	}
}

// covers: beta/10, beta/62, beta/65
func TestControl(t *testing.T) {
	for _, tt := range []struct {
		upToDate, closed bool
		want             string
	}{
		{false, false, `{"streamNextOffset":"` + seventh + `","streamCursor":"c"}`},
		{true, false, `{"streamNextOffset":"` + seventh + `","streamCursor":"c","upToDate":true}`},
		{true, true, `{"streamNextOffset":"` + seventh + `","streamClosed":true}`},
		{false, true, `{"streamNextOffset":"` + seventh + `","streamCursor":"c"}`},
	} {
		if got := string(beta.AppendControl(nil, 7, tt.upToDate, tt.closed, "c")); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// covers: beta/18
func FuzzParseRead(f *testing.F) {
	for _, seed := range []string{"", "offset=-1&tail=3", "offset=now&live=sse", "offset=" + seventh, "tail=01", "offset=1_99999999999999999999&cursor=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		r, err := beta.ParseRead(q)
		if err != nil {
			if conversation.CodeOf(err) != conversation.CodeInvalidRequest {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		if r.After < -1 || r.After >= 1e16 || r.Tail < 0 || r.Now && (r.Tail > 0 || r.After != -1) {
			t.Fatalf("parsed %q as %+v", query, r)
		}
		again, err := beta.ParseRead(url.Values{"offset": {beta.Offset(r.After)}})
		if err != nil || again.After != r.After {
			t.Fatalf("%q: parsed offset %s as %+v, %v", query, beta.Offset(r.After), again, err)
		}
		beta.Cursor(time.Unix(0, 0), r.Cursor, 1)
	})
}
