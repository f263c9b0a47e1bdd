package model

import (
	"fmt"
	"slices"
	"strings"
)

// Move is one possible event in a world.
type Move[W comparable] struct {
	// Label describes it, with up to two verbs %d for Subject and Object.
	Label           string
	Subject, Object uint8
	// Fair moves happen eventually if they stay possible: faults end, and clients need not retry, but
	// requests in flight complete.
	Fair bool
	Next W
}

// String implements fmt.Stringer.
func (m Move[W]) String() string {
	return fmt.Sprintf(m.Label, []any{m.Subject, m.Object}[:strings.Count(m.Label, "%d")]...)
}

// Model defines the possible moves and the invalid worlds.
type Model[W comparable] interface {
	Start() W
	// Moves calls yield with every possible move of a world.
	Moves(w W, yield func(Move[W]))
	// Wrong describes the violation of a safety property, empty if there is none.
	Wrong(w W) string
	// Unfinished describes unfinished work, empty if the world may be final.
	Unfinished(w W) string
}

// Result is the result of an exploration.
type Result[W comparable] struct {
	Worlds int
	// Violation is empty if there is none. Path is the shortest sequence of moves to it.
	Violation string
	Path      []Move[W]
}

// frontier is the state of a breadth-first exploration.
type frontier[W comparable] struct {
	model  Model[W]
	index  map[W]int32
	worlds []W
	parent []int32
	// before are the worlds from which a fair move leads to each, as a list in two arrays.
	head       []int32
	next, from []int32
}

// Explore visits every reachable world. It panics above bound worlds, because a model larger than
// expected verifies nothing. A violation is a world that is Wrong, or one from which fair moves alone
// never reach a final world.
func Explore[W comparable](m Model[W], bound int) Result[W] {
	f := &frontier[W]{model: m, index: map[W]int32{}}
	f.add(m.Start(), -1)
	for i := 0; i < len(f.worlds); i++ {
		if len(f.worlds) > bound {
			panic(fmt.Sprintf("model: more than %d worlds", bound))
		}
		if wrong := f.visit(int32(i)); wrong != "" {
			return Result[W]{Worlds: len(f.worlds), Violation: wrong, Path: f.path(int32(i))}
		}
	}
	if i := f.stuck(); i >= 0 {
		return Result[W]{Worlds: len(f.worlds), Violation: "never finished: " + m.Unfinished(f.worlds[i]), Path: f.path(i)}
	}
	return Result[W]{Worlds: len(f.worlds)}
}

func (f *frontier[W]) add(w W, parent int32) int32 {
	if i, ok := f.index[w]; ok {
		return i
	}
	i := int32(len(f.worlds))
	f.index[w] = i
	f.worlds, f.parent, f.head = append(f.worlds, w), append(f.parent, parent), append(f.head, -1)
	return i
}

// visit adds the successors of a world and returns its violation.
func (f *frontier[W]) visit(i int32) string {
	w := f.worlds[i]
	if wrong := f.model.Wrong(w); wrong != "" {
		return wrong
	}
	ends := true
	f.model.Moves(w, func(m Move[W]) {
		if m.Next == w {
			return
		}
		to := f.add(m.Next, i)
		if m.Fair {
			ends = false
			f.next, f.from = append(f.next, f.head[to]), append(f.from, i)
			f.head[to] = int32(len(f.from) - 1)
		}
	})
	if ends {
		return f.model.Unfinished(w)
	}
	return ""
}

// stuck returns the first world from which no fair moves reach a final world, or -1.
func (f *frontier[W]) stuck() int32 {
	well := make([]bool, len(f.worlds))
	var todo []int32
	reach := func(i int32) {
		if !well[i] {
			well[i], todo = true, append(todo, i)
		}
	}
	for i, w := range f.worlds {
		if f.model.Unfinished(w) == "" {
			reach(int32(i))
		}
	}
	for len(todo) > 0 {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for e := f.head[last]; e >= 0; e = f.next[e] {
			reach(f.from[e])
		}
	}
	return int32(slices.Index(well, false))
}

// path returns the moves from the start to a world.
func (f *frontier[W]) path(i int32) (moves []Move[W]) {
	for ; f.parent[i] >= 0; i = f.parent[i] {
		to, found := f.worlds[i], false
		f.model.Moves(f.worlds[f.parent[i]], func(m Move[W]) {
			if m.Next == to && !found {
				moves, found = append(moves, m), true
			}
		})
	}
	slices.Reverse(moves)
	return moves
}
