package conversation

import (
	"fmt"
	"slices"
)

// Hold replaces InlineBytes in a restored state.
func (s *State) Hold(inline int) { s.inline = inline }

// CheckSums recomputes the sums kept in a state and compares.
func (s *State) CheckSums() error {
	var queue waiting
	for _, sub := range s.unsettled[min(1, len(s.unsettled)):] {
		queue.add(sub, 1)
	}
	if s.waiting != queue {
		return fmt.Errorf("waiting is %+v, want %+v", s.waiting, queue)
	}
	for _, sub := range slices.Concat(s.submissions, s.children) {
		n := 0
		for _, st := range sub.turns {
			for _, p := range st.parts {
				n += p.callBytes()
				for i := range s.recorded[p.call] {
					n += s.recorded[p.call][i].callBytes()
				}
				for _, w := range s.waits {
					if w.Call == p.call {
						n += w.callBytes()
					}
				}
			}
		}
		if m := s.byID[sub.Message]; m != nil && sub.callBytes != n {
			return fmt.Errorf("call bytes of %s are %d, want %d", sub.ID, sub.callBytes, n)
		}
	}
	return nil
}
