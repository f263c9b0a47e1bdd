package memory_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/memory"
)

// shelf keeps entries by name and records evictions.
type shelf struct {
	*memory.Shelf
	kept map[string]*memory.Kept

	mu      sync.Mutex
	dropped []string
}

func newShelf(i *memory.Idle, name string) *shelf {
	return &shelf{Shelf: i.Shelf(name), kept: map[string]*memory.Kept{}}
}

func (s *shelf) keep(name string, n int64) {
	s.kept[name] = s.Keep(n, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dropped = append(s.dropped, name)
	})
}

// went returns and clears the evicted names.
func (s *shelf) went() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.dropped
	s.dropped = nil
	return out
}

// gone trims, then returns and clears the evicted names.
func (s *shelf) gone(i *memory.Idle) []string {
	i.Trim()
	return s.went()
}

func TestIdleGivesWay(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*shelf)
		want []string
		held int64
	}{
		{"fitting entries stay", func(s *shelf) { s.keep("a", 60); s.keep("b", 40) }, nil, 100},
		{"the one used least recently goes", func(s *shelf) { s.keep("a", 60); s.keep("b", 40); s.keep("c", 1) }, []string{"a"}, 41},
		{"as many as must", func(s *shelf) { s.keep("a", 30); s.keep("b", 30); s.keep("c", 90) }, []string{"a", "b"}, 90},
		{"one that is too large", func(s *shelf) { s.keep("a", 101) }, []string{"a"}, 0},
		{"used entries are not evicted", func(s *shelf) { s.keep("a", 60); s.keep("b", 40); s.kept["a"].Take(); s.keep("c", 60) }, nil, 100},
		{"it comes back in front", func(s *shelf) {
			s.keep("a", 50)
			s.keep("b", 50)
			s.kept["a"].Take()
			s.keep("a", 50)
			s.keep("c", 50)
		}, []string{"b"}, 100},
		{"growth counts", func(s *shelf) { s.keep("a", 50); s.keep("b", 50); s.kept["b"].Add(1) }, []string{"a"}, 51},
		{"shrinking counts", func(s *shelf) { s.keep("a", 90); s.kept["a"].Add(-50); s.keep("b", 60) }, nil, 100},
		{"taken entries do not count", func(s *shelf) { s.keep("a", 90); s.kept["a"].Take(); s.kept["a"].Add(500); s.kept["a"].Take() }, nil, 0},
		{"other evictable bytes reduce the limit", func(s *shelf) { s.keep("a", 50); s.Add(60) }, []string{"a"}, 60},
		{"and goes by no other", func(s *shelf) { s.Add(150) }, nil, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := memory.New(0).Idle(100)
			s := newShelf(i, "things")
			c.do(s)
			if diff := cmp.Diff(c.want, s.gone(i)); diff != "" {
				t.Errorf("gave way (-want +got):\n%s", diff)
			}
			want := []memory.IdleUsage{{Consumer: "things", Held: c.held, Crowded: int64(len(c.want))}}
			if diff := cmp.Diff(want, i.Usage()); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			for _, k := range s.kept {
				k.Take()
			}
			if gone := s.gone(i); c.held <= 100 && gone != nil {
				t.Errorf("got evictions %v, want none", gone)
			}
		})
	}
}

// TestIdleOfSeveral checks that eviction is least recently used first, across holders.
func TestIdleOfSeveral(t *testing.T) {
	i := memory.New(0).Idle(3)
	a, b := newShelf(i, "a"), newShelf(i, "b")
	a.keep("1", 1)
	b.keep("2", 1)
	a.keep("3", 1)
	b.keep("4", 1)
	b.keep("5", 1)
	if diff := cmp.Diff([][]string{{"1"}, {"2"}}, [][]string{a.gone(i), b.gone(i)}); diff != "" {
		t.Errorf("gave way (-want +got):\n%s", diff)
	}
	want := []memory.IdleUsage{{Consumer: "a", Held: 1, Crowded: 1}, {Consumer: "b", Held: 2, Crowded: 1}}
	if diff := cmp.Diff(want, i.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestIdleOfATightNode checks that entries unused for a second are evicted while half of the budget is
// in use.
func TestIdleOfATightNode(t *testing.T) { synctest.Test(t, idleOfATightNode) }

func idleOfATightNode(t *testing.T) {
	b := memory.New(100)
	work := b.Account("work", 0)
	i := b.Idle(0)
	s := newShelf(i, "things")
	must(t, work.Take(49))
	s.keep("a", 1)
	s.keep("b", 1)
	time.Sleep(time.Second)
	if gone := s.gone(i); gone != nil {
		t.Errorf("got evictions %v, want none without a request", gone)
	}
	must(t, work.Take(1))
	s.keep("c", 1)
	if diff := cmp.Diff([]string{"a", "b"}, s.gone(i)); diff != "" {
		t.Errorf("gave way (-want +got):\n%s", diff)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	if diff := cmp.Diff([]string{"c"}, s.went()); diff != "" {
		t.Errorf("evictions without a request (-want +got):\n%s", diff)
	}
	work.Add(-1)
	s.keep("d", 1)
	time.Sleep(time.Second)
	if gone := s.gone(i); gone != nil {
		t.Errorf("got evictions %v, want none with room", gone)
	}
	if diff := cmp.Diff([]memory.IdleUsage{{Consumer: "things", Held: 1, Tight: 3}}, i.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestIdleByAnotherRule checks that evictions by the holder itself are counted.
func TestIdleByAnotherRule(t *testing.T) {
	i := memory.New(0).Idle(100)
	s := i.Shelf("things")
	s.Add(30)
	s.Add(-10)
	s.Drop(10)
	if diff := cmp.Diff([]memory.IdleUsage{{Consumer: "things", Held: 10, Crowded: 1}}, i.Usage()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestDropMayKeep checks that a drop function runs without a lock and may add an entry.
func TestDropMayKeep(t *testing.T) {
	i := memory.New(0).Idle(2)
	s := i.Shelf("things")
	again := 0
	var drop func()
	drop = func() {
		if again++; again == 1 {
			s.Keep(1, drop)
			i.Trim()
		}
	}
	s.Keep(2, drop)
	s.Keep(1, func() {})
	i.Trim()
	if u := i.Usage()[0]; u.Held != 2 || again != 1 {
		t.Errorf("got %+v after %d drops", u, again)
	}
}

func TestNoIdleKeepsNothing(t *testing.T) {
	var none *memory.Idle
	s := none.Shelf("things")
	k := s.Keep(1, func() { t.Error("got an eviction, want none") })
	k.Add(1 << 40)
	s.Add(1 << 40)
	none.Trim()
	k.Take()
	if none.Usage() != nil {
		t.Error("got held bytes, want 0")
	}
}
