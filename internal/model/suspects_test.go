package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/model"
)

// The model of suspects and quarantine: one node that restarts after each crash, two conversations
// with work, and kills at any moment. The first conversation may be a poison, whose opening crashes
// the node until it is repaired.
//
// Not modeled: time, several nodes, reads, journals that land late.

// suspectRule is one rule of docs/durability.md.
type suspectRule uint8

const (
	allSuspectRules suspectRule = iota
	countsAlone
	suspectsAlone
	cleanDurable
	pauseTakesBack
	releases
)

var suspectRules = []string{
	countsAlone:    "a crash counts if nothing else was opened or worked on",
	suspectsAlone:  "a suspect is opened alone",
	cleanDurable:   "a clean opening is durable",
	pauseTakesBack: "a crash in the pause takes one back",
	releases:       "a quarantined conversation is tried again",
}

const (
	crashLimit = 2 // crashes that count, until a conversation is quarantined
	maxTries   = 2 // crashes of a release
	// maxPoisoned bounds the crashes of a poison: one with other openings, one with other work, and
	// one more for each kill.
	maxPoisoned = 2 + crashLimit + maxTries
)

// State of a conversation at the node.
const (
	isClosed = iota
	opensAmongOthers
	pausesBefore
	opensAlone
	worksOn
)

// conv is a conversation. The reports of the journals are durable, phase is not.
type conv struct {
	phase                   uint8
	suspect                 bool
	named, counted, paused  uint8
	quarantined, done, sick bool
	// kills counts kills during its lone openings that nothing has compensated since.
	kills uint8
}

type suspectWorld struct {
	convs                  [2]conv
	down                   bool
	kills, poisoned, tries uint8
}

type suspectModel struct {
	off   suspectRule
	sick  bool
	kills uint8
}

func (m suspectModel) has(r suspectRule) bool { return m.off != r }

func (m suspectModel) Start() suspectWorld {
	w := suspectWorld{down: true, kills: m.kills}
	w.convs[0].sick = m.sick
	return w
}

// over reports whether the journals hold enough crashes to quarantine a conversation.
func (m suspectModel) over(t conv) bool {
	counted := t.counted
	if m.has(pauseTakesBack) {
		counted -= min(counted, t.paused)
	}
	return counted >= crashLimit
}

// crash returns the world after the end of the node.
func (m suspectModel) crash(w suspectWorld, killed bool) suspectWorld {
	before := w.convs
	for i, t := range before {
		other := before[1-i].phase
		alone := other == isClosed
		next := &w.convs[i]
		next.phase = isClosed
		switch t.phase {
		case opensAmongOthers:
			next.suspect = true
			if !m.has(countsAlone) {
				next.counted++
			}
		case pausesBefore:
			next.suspect = true
			next.paused = min(next.paused+1, crashLimit)
			if killed {
				next.kills -= min(next.kills, 1)
			}
		case opensAlone:
			next.suspect = true
			next.named = 1
			if alone || !m.has(countsAlone) {
				next.counted = min(next.counted+1, crashLimit+2)
			}
			if alone && killed {
				next.kills++
			}
		}
	}
	w.down = true
	return w
}

func (m suspectModel) Moves(w suspectWorld, yield func(model.Move[suspectWorld])) {
	move := func(desc string, subject int, fair bool, next suspectWorld) {
		yield(model.Move[suspectWorld]{Label: desc, Subject: uint8(subject), Fair: fair, Next: next})
	}
	if w.convs[0].sick {
		next := w
		next.convs[0].sick = false
		move("the poison is repaired", 0, false, next)
	}
	if w.down {
		next := w
		next.down = false
		for i, t := range w.convs {
			if m.over(t) {
				next.convs[i] = conv{quarantined: true, sick: t.sick, kills: t.kills}
			}
		}
		move("a node starts", 0, true, next)
		return
	}
	if w.kills > 0 && m.mayKill(w) {
		next := w
		next.kills--
		move("the node is killed", 0, false, m.crash(next, true))
	}
	for i, t := range w.convs {
		m.of(w, i, t, move)
	}
}

// mayKill excludes kills that no rule can distinguish from a poison: repeated kills during the opening
// of one conversation alone, with neither a kill in the pause nor a clean opening in between.
func (m suspectModel) mayKill(w suspectWorld) bool {
	for i, t := range w.convs {
		if t.phase == opensAlone && w.convs[1-i].phase == isClosed && t.kills >= crashLimit-1 {
			return false
		}
	}
	return true
}

func (m suspectModel) of(w suspectWorld, i int, t conv, move func(string, int, bool, suspectWorld)) {
	other := w.convs[1-i]
	to := func(desc string, fair bool, change func(*suspectWorld, *conv)) {
		next := w
		change(&next, &next.convs[i])
		move(desc, i, fair, next)
	}
	phase := func(desc string, p uint8) { to(desc, true, func(_ *suspectWorld, t *conv) { t.phase = p }) }
	opening := other.phase == opensAmongOthers || other.phase == pausesBefore || other.phase == opensAlone
	closedGate := other.phase == pausesBefore || other.phase == opensAlone
	solo := t.suspect && m.has(suspectsAlone)
	switch t.phase {
	case isClosed:
		switch {
		case t.quarantined:
			if m.has(releases) && !opening && (w.tries < maxTries || !t.sick) {
				phase("%d is tried again alone", opensAlone)
			}
		case t.done:
		case solo && opening:
		case solo && t.named > 0 && other.phase == isClosed:
			phase("%d waits to be opened alone", pausesBefore)
		case solo && t.named > 0 && !other.done: // it comes first, or when the node is idle
		case solo:
			phase("%d is opened alone", opensAlone)
		case !closedGate:
			phase("%d is opened", opensAmongOthers)
		}
	case pausesBefore:
		phase("the pause before %d is over", opensAlone)
	case opensAmongOthers, opensAlone:
		if t.sick {
			next := w
			next.poisoned++
			if t.quarantined {
				next.tries++
			}
			next = m.crash(next, false)
			if t.quarantined {
				next.convs[i] = conv{quarantined: true, sick: true}
			}
			move("%d crashes the node", i, true, next)
			return
		}
		to("%d is open", true, func(_ *suspectWorld, t *conv) {
			t.phase, t.suspect, t.kills, t.quarantined = worksOn, false, 0, false
			if m.has(cleanDurable) {
				t.named, t.counted, t.paused = 0, 0, 0
			}
		})
	case worksOn:
		to("%d settles", true, func(_ *suspectWorld, t *conv) { t.phase, t.done = isClosed, true })
	}
}

func (m suspectModel) Wrong(w suspectWorld) string {
	for i, t := range w.convs {
		if t.quarantined && !(m.sick && i == 0) {
			return fmt.Sprintf("innocent %d is quarantined", i)
		}
	}
	if w.poisoned > maxPoisoned+m.kills {
		return "a poison crashes nodes forever"
	}
	return ""
}

func (m suspectModel) Unfinished(w suspectWorld) string {
	for i, t := range w.convs {
		if !t.done && !(t.sick && t.quarantined) {
			return fmt.Sprintf("%d is neither settled nor quarantined with its cause", i)
		}
	}
	return ""
}

// TestSuspects checks that an innocent conversation is never quarantined, that a poison is after a
// bounded number of crashes, and that a repaired one continues by itself. Each rule is needed.
func TestSuspects(t *testing.T) {
	for name, tt := range map[string]struct {
		model suspectModel
		want  string // text of the violation, empty if there is none
	}{
		"innocents":                   {suspectModel{kills: 5}, ""},
		"poison":                      {suspectModel{sick: true, kills: 3}, ""},
		"crashes with other openings": {suspectModel{off: countsAlone, kills: 2}, "innocent"},
		"suspects together":           {suspectModel{off: suspectsAlone, sick: true}, "crashes nodes forever"},
		"openings are not recorded":   {suspectModel{off: cleanDurable, kills: 5}, "innocent"},
		"pauses count for none":       {suspectModel{off: pauseTakesBack, kills: 5}, "innocent"},
		"no release":                  {suspectModel{off: releases, sick: true}, "neither settled nor quarantined"},
	} {
		t.Run(name, func(t *testing.T) {
			r := model.Explore(tt.model, bound)
			t.Logf("%d worlds, %d moves to: %s", r.Worlds, len(r.Path), r.Violation)
			if (tt.want == "") != (r.Violation == "") || !strings.Contains(r.Violation, tt.want) {
				for i, m := range r.Path {
					t.Logf("%3d  %v", i+1, m)
				}
				t.Errorf("without %q: got %q, want %q", suspectRules[tt.model.off], r.Violation, tt.want)
			}
		})
	}
}
