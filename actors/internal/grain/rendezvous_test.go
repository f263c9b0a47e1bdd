package grain_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/internal/sample"
)

// The first output of splitmix64 for seed 0 is the finalizer of its increment.
func TestMix64IsSplitmix64(t *testing.T) {
	if got, want := grain.Mix64(0x9e3779b97f4a7c15), uint64(0xe220a8397b1dcdaf); got != want {
		t.Errorf("Mix64 = %#x, want %#x", got, want)
	}
}

// TestOwnerIsPinned: placement must not change between releases, because a rolling update mixes them.
func TestOwnerIsPinned(t *testing.T) {
	addresses := []string{"10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000"}
	want := map[string]string{ // computed by an independent program
		"conv-0": "10.0.0.2:7000",
		"conv-1": "10.0.0.1:7000",
		"conv-2": "10.0.0.3:7000",
		"conv-3": "10.0.0.1:7000",
		"conv-4": "10.0.0.2:7000",
		"conv-5": "10.0.0.1:7000",
	}
	for id, owner := range want {
		if got := grain.Owner(addresses, id); got != owner {
			t.Errorf("owner of %q is %q, want %q", id, got, owner)
		}
	}
	if got := grain.Owner(nil, "conv-1"); got != "" {
		t.Errorf("owner without members is %q, want none", got)
	}
}

// at returns a view of members at neighbouring ports, one per weight.
func at(weights ...int) grain.View {
	var v grain.View
	for i, w := range weights {
		v.Members = append(v.Members, grain.Member{ID: fmt.Sprint(i), Host: "127.0.0.1", Port: 7001 + i, Weight: w})
	}
	return v
}

func TestOwnersShareByWeight(t *testing.T) {
	hosts := func(format string) grain.View {
		v := at(1, 1, 1)
		for i := range v.Members {
			v.Members[i].Host, v.Members[i].Port = fmt.Sprintf(format, i), 7000
		}
		return v
	}
	tests := []struct {
		name   string
		view   grain.View
		shares []float64
	}{
		{"neighbouring ports", at(1, 1, 1), []float64{1. / 3, 1. / 3, 1. / 3}},
		{"neighbouring hosts", hosts("10.0.0.%d"), []float64{1. / 3, 1. / 3, 1. / 3}},
		{"pods", hosts("parley-%d.parley"), []float64{1. / 3, 1. / 3, 1. / 3}},
		{"one two three", at(1, 2, 3), []float64{1. / 6, 2. / 6, 3. / 6}},
		{"equal large weights", at(1000, 1000), []float64{.5, .5}},
		{"one without weight", at(5, 0, 5), []float64{.5, 0, .5}},
	}
	n := sample.Of(100_000, 20_000)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			owned := map[grain.Member]int{}
			for i := range n {
				m, ok := tt.view.Owner(fmt.Sprintf("conv-%d", i))
				if !ok {
					t.Fatal("no owner")
				}
				owned[m]++
			}
			for i, m := range tt.view.Members {
				if got, want := float64(owned[m]), float64(n)*tt.shares[i]; got < want*.9 || got > want*1.1 {
					t.Errorf("member %d owns %v, want %.0f within 10 %%", i, got, want)
				}
			}
		})
	}
}

func TestChangeMovesOnlyItsOwnShare(t *testing.T) {
	all := at(1, 2, 3, 1)
	tests := []struct {
		name  string
		other grain.View
		moved int // the member whose identities may get another owner
	}{
		{"leaving", grain.View{Members: []grain.Member{all.Members[2], all.Members[0], all.Members[1]}}, 3},
		{"draining", drained(all, 1), 1},
		{"losing its weight", at(1, 2, 0, 1), 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			moved := 0
			for i := range 10_000 {
				id := fmt.Sprintf("conv-%d", i)
				was, _ := all.Owner(id)
				is, _ := tt.other.Owner(id)
				switch {
				case was.ID != fmt.Sprint(tt.moved) && was != is:
					t.Fatalf("%q moved from %+v to %+v", id, was, is)
				case was.ID == fmt.Sprint(tt.moved) && was.ID == is.ID:
					t.Fatalf("%q stayed with %+v", id, was)
				case was.ID != is.ID:
					moved++
				}
			}
			if moved == 0 {
				t.Error("nothing moved")
			}
		})
	}
}

func drained(v grain.View, which int) grain.View {
	members := append([]grain.Member(nil), v.Members...)
	members[which].Draining = true
	return grain.View{Members: members}
}

func TestNoOwner(t *testing.T) {
	for name, v := range map[string]grain.View{
		"no members": {}, "no weights": at(0, 0), "negative weight": at(-1),
	} {
		if m, ok := v.Owner("conv-1"); ok {
			t.Errorf("%s: owner %+v, want none", name, m)
		}
	}
}

// TestLastMembersOwnWhileTheyDrain: if all members with weight drain, draining is ignored.
func TestLastMembersOwnWhileTheyDrain(t *testing.T) {
	for i := range 100 {
		id := fmt.Sprintf("conv-%d", i)
		want, _ := at(1, 2).Owner(id)
		got, ok := drained(drained(at(1, 2, 0), 0), 1).Owner(id)
		if !ok || got.Address() != want.Address() {
			t.Fatalf("owner of %q is %+v, want %+v", id, got, want)
		}
	}
}

func TestOwnerDoesNotDependOnTheOrder(t *testing.T) {
	v, back := at(1, 1, 1), at()
	for _, m := range v.Members {
		back.Members = append([]grain.Member{m}, back.Members...)
	}
	for i := range 1000 {
		id := fmt.Sprintf("conv-%d", i)
		a, _ := v.Owner(id)
		if b, _ := back.Owner(id); a != b {
			t.Fatalf("owner of %q depends on the order: %+v or %+v", id, a, b)
		}
	}
	if got := grain.LowestOfEqual("b:1", "a:1", "c:1"); got != "a:1" {
		t.Errorf("winner of equal scores is %s, want a:1", got)
	}
}

func TestRankBeginsWithTheOwnerIfNobodyDrained(t *testing.T) {
	if isolated(t) {
		return
	}
	m := newHandDriven()
	c := start(t, actorFunc(echo), &grain.Options{Membership: m})
	c.StopPings()
	others := at(1, 2, 3, 1, 1).Members
	m.show(append(drained(grain.View{Members: others}, 0).Members, m.self)...)
	for i := range 200 {
		id := fmt.Sprintf("conv-%d", i)
		rank := c.Ranked(id, 4)
		if len(rank) != 4 {
			t.Fatalf("rank %v, want 4 members", rank)
		}
		left := grain.View{Members: append([]grain.Member(nil), others...)}
		for _, got := range rank {
			want, _ := left.Owner(id)
			if got != want.Address() {
				t.Fatalf("rank %v of %q: %s before %s", rank, id, got, want.Address())
			}
			for j := range left.Members {
				if left.Members[j] == want {
					left.Members[j].Weight = 0
				}
			}
		}
	}
}
