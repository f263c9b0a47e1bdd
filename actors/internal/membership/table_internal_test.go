package membership

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
)

// rows parses members from "id@node"; "id" alone has no node address.
func rows(spec string) []storage.Member {
	var out []storage.Member
	for word := range strings.FieldsSeq(spec) {
		id, node, _ := strings.Cut(word, "@")
		out = append(out, storage.Member{ID: id, Node: node})
	}
	return out
}

func rowText(members []storage.Member) string {
	var out []string
	for _, m := range members {
		word := m.ID
		if m.Node != "" {
			word += "@" + m.Node
		}
		if m.Draining {
			word += "!"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestEnter(t *testing.T) {
	for name, tt := range map[string]struct {
		members, row           string
		older, suspects, after string
		unchanged              bool
	}{
		"empty":                        {row: "a@1", after: "a@1"},
		"empty, alone":                 {row: "a", after: "a"},
		"among others":                 {members: "b@2 c@3", row: "a@1", after: "b@2 c@3 a@1"},
		"there already":                {members: "b@2 a@1", row: "a@1", after: "b@2 a@1", unchanged: true},
		"older incarnation":            {members: "b@1 c@3", row: "a@1", older: "b@1", after: "c@3 a@1"},
		"older incarnations":           {members: "a@1 b@1 d@1", row: "a@1", older: "b@1 d@1", after: "a@1"},
		"one that serves alone":        {members: "b c@3", row: "a@1", suspects: "b", after: "c@3 a@1"},
		"alone among others":           {members: "b c@3", row: "a", suspects: "b c@3", after: "a"},
		"alone, there already":         {members: "a", row: "a", after: "a", unchanged: true},
		"alone, present, with another": {members: "a b@2", row: "a", suspects: "b@2", after: "a"},
	} {
		e := enter(rows(tt.members), rows(tt.row)[0])
		after, changed := e.with(rows(tt.row)[0])
		if rowText(e.older) != tt.older || rowText(e.suspects) != tt.suspects || rowText(after) != tt.after || changed == tt.unchanged {
			t.Errorf("%s: older %q, suspects %q, after %q, changed %v", name, rowText(e.older), rowText(e.suspects), rowText(after), changed)
		}
	}
}

func TestWithoutAndDrained(t *testing.T) {
	before := rows("a b c")
	rest, changed := without(before, "c", "a", "x")
	if rowText(rest) != "b" || !changed {
		t.Errorf("without: %q, %v", rowText(rest), changed)
	}
	if rest, changed = without(before, "x"); rowText(rest) != "a b c" || changed {
		t.Errorf("without an unknown member: %q, %v", rowText(rest), changed)
	}
	marked, changed, found := drained(before, "b", true)
	if rowText(marked) != "a b! c" || !changed || !found {
		t.Errorf("drained: %q, %v, %v", rowText(marked), changed, found)
	}
	if again, changed, found := drained(marked, "b", true); rowText(again) != "a b! c" || changed || !found {
		t.Errorf("drained again: %q, %v, %v", rowText(again), changed, found)
	}
	if back, changed, _ := drained(marked, "b", false); rowText(back) != "a b c" || !changed {
		t.Errorf("undone: %q, %v", rowText(back), changed)
	}
	if _, changed, found := drained(before, "x", true); changed || found {
		t.Errorf("drained an unknown member: %v, %v", changed, found)
	}
	if rowText(before) != "a b c" {
		t.Errorf("the rows were changed in place: %q", rowText(before))
	}
}

func TestSuccessors(t *testing.T) {
	for _, tt := range []struct{ members, of, want string }{
		{"a", "a", ""},
		{"a b", "a", "b"},
		{"a b", "b", "a"},
		{"d b a c", "b", "c d a"},
		{"e d c b a", "a", "b c d"},
		{"e d c b a", "c", "d e a"},
		{"e d c b a", "e", "a b c"},
		{"a b c d e", "bb", "c d e"}, // not a member
		{"", "a", ""},
	} {
		members := rows(tt.members)
		if got := rowText(successors(members, tt.of, 3)); got != tt.want {
			t.Errorf("after %s of %q: got %q, want %q", tt.of, tt.members, got, tt.want)
		}
		if rowText(members) != tt.members {
			t.Errorf("the rows were changed in place: %q", rowText(members))
		}
	}
}

// TestEveryoneIsWatched: every member has observers.
func TestEveryoneIsWatched(t *testing.T) {
	all := rows("a b c d e f g h")
	for n := range all {
		seen := map[string]int{}
		for _, m := range all[:n+1] {
			for _, s := range successors(all[:n+1], m.ID, watchedBy) {
				seen[s.ID]++
			}
		}
		for _, m := range all[:n+1] {
			if seen[m.ID] != min(n, watchedBy) {
				t.Errorf("of %d members, %d watch %s", n+1, seen[m.ID], m.ID)
			}
		}
	}
}

func TestRing(t *testing.T) {
	failed := observation{err: errors.New("no answer")}
	at := func(marks ...mark) []observation {
		var s []observation
		for _, m := range marks {
			s = append(s, observation{mark: m})
		}
		return s
	}
	type step struct {
		ids          string
		observations []observation
		missed       int64
		gone         string
	}
	for name, steps := range map[string][]step{
		"one crashes":                         {{"b c", at(1, 1), 0, ""}, {"b c", at(1, 2), 0, ""}, {"b c", at(1, 3), 0, "b"}, {"b c", at(1, 4), 0, "b"}},
		"two crash":                           {{"b c", at(1, 1), 0, ""}, {"b c", at(1, 1), 0, ""}, {"b c", at(1, 1), 0, "b c"}},
		"heartbeat changes":                   {{"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(2), 0, ""}, {"b", at(2), 0, ""}, {"b", at(2), 0, "b"}},
		"heartbeat changes after the verdict": {{"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 0, "b"}, {"b", at(2), 0, ""}, {"b", at(2), 0, ""}},
		"a check fails":                       {{"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", []observation{failed}, 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 0, "b"}},
		"a check of another fails":            {{"b c", at(1, 1), 0, ""}, {"b c", []observation{{mark: 1}, failed}, 0, ""}, {"b c", at(1, 1), 0, "b"}},
		"own heartbeat missed":                {{"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 1, ""}, {"b", at(1), 1, ""}, {"b", at(1), 1, "b"}},
		"no longer watched":                   {{"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"c", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 0, ""}, {"b", at(1), 0, "b"}},
		"another place in the row":            {{"b c", at(1, 5), 0, ""}, {"b c", at(1, 6), 0, ""}, {"c b", at(7, 1), 0, "b"}},
		"none to watch":                       {{"", nil, 0, ""}},
	} {
		var r ring
		for i, s := range steps {
			got := strings.Join(r.observe(strings.Fields(s.ids), s.observations, s.missed, 2), " ")
			if diff := cmp.Diff(s.gone, got); diff != "" {
				t.Errorf("%s, check %d (-want +got):\n%s", name, i+1, diff)
			}
		}
	}
}

func TestRingStill(t *testing.T) {
	var r ring
	r.observe([]string{"b"}, []observation{{mark: 3}}, 0, 2)
	for name, tt := range map[string]struct {
		id   string
		s    observation
		want bool
	}{
		"the same": {"b", observation{mark: 3}, true}, "removed": {"b", observation{mark: absent}, true},
		"another": {"b", observation{mark: 4}, false}, "no answer": {"b", observation{err: errors.New("x")}, false}, "an unknown member": {"c", observation{mark: 3}, false},
	} {
		if got := r.still(tt.id, tt.s); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
