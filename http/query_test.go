package http_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

// TestQueryRefused has queries that a lenient parser might accept. They never reach the runtime.
// covers: protocol/15, protocol/175, protocol/97 view_without_a_value, protocol/98 history_offset_without_a_value
// covers: protocol/99 history_tail_escape_broken, protocol/100 history_live_cut, protocol/102 offset_in_other_case
// covers: protocol/103 offset_twice_one_escaped, protocol/103 offset_twice_the_same
// covers: protocol/104 offset_plus_is_a_space, protocol/105 live_other, protocol/105 live_without_a_value
// covers: protocol/107 tail_empty
func TestQueryRefused(t *testing.T) {
	good := offset(0)
	for _, tt := range []struct{ name, query, details string }{
		{"view_without_a_value", "view", "view"},
		{"view_escape_broken", "view=%zz", `"%zz"`},
		{"view_escape_cut", "view=updates%&offset=-1", "view"},
		{"view_plus_is_a_space", "view=updates+&offset=-1", `"updates "`},
		{"view_space", "view=history%20", "view"},
		{"view_nul", "view=history%00", "view"},
		{"view_semicolon_separates_nothing", "view=updates;offset=-1", "view"},
		{"view_equals_in_value", "view==updates", "view"},
		{"view_long", "view=" + strings.Repeat("x", 4000), "view"},
		{"history_tail_escape_broken", "tail=%zz", "tail"},
		{"history_live_cut", "live=%", "live"},
		{"history_offset_name_escaped", "%6f%66%66%73%65%74=-1", "offset"},
		{"history_offset_without_a_value", "view=history&offset", "offset"},
		{"offset_missing_behind_a_fragment_of_it", "view=updates&offse=-1", "exactly once, not 0"},
		{"offset_in_other_case", "view=updates&Offset=-1", "exactly once, not 0"},
		{"offset_name_broken", "view=updates&offset%=-1", "exactly once, not 0"},
		{"offset_name_with_a_space", "view=updates&offset+=-1", "exactly once, not 0"},
		{"offset_name_with_brackets", "view=updates&offset[]=-1", "exactly once, not 0"},
		{"offset_twice", "view=updates&offset=-1&offset=" + good, "exactly once, not 2"},
		{"offset_twice_the_same", "view=updates&offset=" + good + "&offset=" + good, "exactly once, not 2"},
		{"offset_twice_one_escaped", "view=updates&offset=-1&of%66set=-1", "exactly once, not 2"},
		{"offset_twice_one_empty", "view=updates&offset=&offset=-1", "exactly once, not 2"},
		{"offset_twice_one_bare", "view=updates&offset=-1&offset", "exactly once, not 2"},
		{"offset_three_times", "view=updates&offset=-1&offset=-1&offset=-1", "exactly once, not 3"},
		{"offset_empty", "view=updates&offset", "must be -1 or"},
		{"offset_escape_broken", "view=updates&offset=%2-1", "must be -1 or"},
		{"offset_escape_cut", "view=updates&offset=-1%", "must be -1 or"},
		{"offset_plus_is_a_space", "view=updates&offset=+" + good[1:], "must be -1 or"},
		{"offset_space_before", "view=updates&offset=%20-1", "must be -1 or"},
		{"offset_line_break", "view=updates&offset=-1%0A", "must be -1 or"},
		{"offset_nul", "view=updates&offset=-1%00", "must be -1 or"},
		{"offset_other_minus", "view=updates&offset=%E2%88%921", "must be -1 or"},
		{"offset_fullwidth_digits", "view=updates&offset=%EF%BC%90" + good[1:], "must be -1 or"},
		{"offset_not_utf8", "view=updates&offset=%FF", "must be -1 or"},
		{"offset_of_double_escape", "view=updates&offset=%252D1", "must be -1 or"},
		{"offset_list", "view=updates&offset=-1,-1", "must be -1 or"},
		{"offset_semicolon_separates_nothing", "view=updates&offset=-1;live=sse", "must be -1 or"},
		{"offset_first_component_not_0", "view=updates&offset=0000000000000001_0000000000000000", "must be -1 or"},
		{"offset_too_large", "view=updates&offset=0000000000000000_99999999999999999", "must be -1 or"},
		{"offset_long", "view=updates&offset=" + strings.Repeat("0", 4000), "must be -1 or"},
		{"tail_empty", "view=updates&offset=-1&tail=", "tail"},
		{"tail_escape_broken", "view=updates&offset=-1&tail=%", "tail"},
		{"live_without_a_value", "view=updates&offset=-1&live", "live"},
		{"live_escape_broken", "view=updates&offset=-1&live=sse%", "live"},
		{"live_plus_is_a_space", "view=updates&offset=-1&live=long+poll", `"long poll"`},
		{"live_space", "view=updates&offset=-1&live=sse%20", "live"},
		{"live_other", "view=updates&offset=-1&live=ws", "live"},
		{"live_first_counts", "view=updates&offset=-1&live=&live=sse", "live"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			r := newPost("/c1", nil)
			r.Method, r.URL.RawQuery = http.MethodGet, tt.query
			e := wantError(t, h.serve(r), 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, tt.details) || len(e.Details) > 300 {
				t.Errorf("got details %q, want %q", e.Details, tt.details)
			}
			if h.rt.calls != nil {
				t.Errorf("got runtime calls %v", h.rt.calls)
			}
		})
	}
}

// TestQueryAccepted has unusual but valid queries, and the reader method for each.
// covers: protocol/192, protocol/96 empty
func TestQueryAccepted(t *testing.T) {
	for _, tt := range []struct{ name, query, call string }{
		{"empty", "", "Snapshot"},
		{"separators_alone", "&&&", "Snapshot"},
		{"nameless", "=&=x", "Snapshot"},
		{"history", "view=history", "Snapshot"},
		{"history_escaped", "vie%77=h%69story", "Snapshot"},
		{"history_first_of_two", "view=history&view=updates", "Snapshot"},
		{"unknown", "cursor=abc&limit=5", "Snapshot"},
		{"unknown_broken", "x=%zz&%zz=x&%", "Snapshot"},
		{"unknown_by_case", "Offset=zz&LIVE=sse&Tail", "Snapshot"},
		{"unknown_by_a_space", "offset%20=-1&+live=sse", "Snapshot"},
		{"unknown_with_a_semicolon", "a;tail=1", "Snapshot"},
		{"wait_means_nothing_to_a_read", "wait=1", "Snapshot"},
		{"updates", "view=updates&offset=-1", "Updates"},
		{"updates_in_any_order", "offset=-1&view=updates", "Updates"},
		{"updates_escaped", "view=%75pdates&of%66set=%2D1", "Updates"},
		{"updates_underscore_escaped", "view=updates&offset=0000000000000000%5F0000000000000000", "Updates"},
		{"updates_first_of_two", "view=updates&view=history&offset=-1", "Updates"},
		{"updates_with_unknown_ones", "view=updates&&offset=-1&cursor=%zz&limit=1", "Updates"},
		{"long_poll_first_of_two", "view=updates&offset=-1&live=long-poll&live=bogus", "Updates"},
		{"long_poll_escaped", "view=updates&offset=-1&live=long%2Dpoll", "Updates"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.create()
			h.rt.calls = nil
			r := newPost("/c1", nil)
			r.Method, r.URL.RawQuery = http.MethodGet, tt.query
			wantStatus(t, h.serve(r), http.StatusOK)
			if len(h.rt.calls) != 1 || h.rt.calls[0] != tt.call {
				t.Errorf("got runtime calls %v, want %s", h.rt.calls, tt.call)
			}
		})
	}
	for _, query := range []string{"Wait=1", "waits", "x=wait", "wai%zt", "wait%20", "a;wait=1", "view=bogus&offset=zz&tail&live=x"} {
		t.Run("admission_"+query, func(t *testing.T) {
			r := newPost("/c1", strings.NewReader(hello))
			r.URL.RawQuery = query
			wantStatus(t, newHarness(t, nil).serve(r), http.StatusAccepted)
		})
	}
}
