package providers

import (
	"maps"
	"slices"
)

// ThinkingLevel says how much a reasoning model is asked to think. The empty
// level leaves it to the vendor; ThinkingOff asks for none, which most vendors have to
// be told.
type ThinkingLevel string

// The levels, from none to most.
const (
	ThinkingOff     ThinkingLevel = "off"
	ThinkingMinimal ThinkingLevel = "minimal"
	ThinkingLow     ThinkingLevel = "low"
	ThinkingMedium  ThinkingLevel = "medium"
	ThinkingHigh    ThinkingLevel = "high"
	ThinkingXHigh   ThinkingLevel = "xhigh"
	ThinkingMax     ThinkingLevel = "max"
)

// ThinkingLevels returns the levels from none to most.
func ThinkingLevels() []ThinkingLevel {
	return []ThinkingLevel{ThinkingOff, ThinkingMinimal, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh, ThinkingMax}
}

// Valid reports whether l is empty or one of the levels.
func (l ThinkingLevel) Valid() bool { return l == "" || slices.Contains(ThinkingLevels(), l) }

// Budget returns how many tokens a level is for, where a vendor counts them, and 0 for no
// thinking.
func (l ThinkingLevel) Budget() int {
	switch l {
	case ThinkingMinimal:
		return 1024
	case ThinkingLow:
		return 2048
	case ThinkingMedium:
		return 8192
	case ThinkingHigh, ThinkingXHigh, ThinkingMax:
		return 16384
	}
	return 0
}

// ThinkingMap says what a model makes of the levels: the vendor's word for a level,
// or nil for one that the model does not have. A level that is not in the map goes by
// its own name; ThinkingXHigh and ThinkingMax, which few models have, need an entry.
// A nil value of ThinkingOff means that the model always thinks.
type ThinkingMap map[ThinkingLevel]*string

// clone returns a map that shares nothing with m.
func (m ThinkingMap) clone() ThinkingMap {
	out := maps.Clone(m)
	for level, word := range out {
		out[level] = clonePointer(word)
	}
	return out
}

// Takes reports whether a model with the map has a level.
func (m ThinkingMap) Takes(l ThinkingLevel) bool {
	if word, ok := m[l]; ok {
		return word != nil
	}
	return l != ThinkingXHigh && l != ThinkingMax
}

// Word returns the vendor's word for a level: that of the map, else the level's own
// name. ok is false if the map rules the level out.
func (m ThinkingMap) Word(l ThinkingLevel) (word string, ok bool) {
	switch w, listed := m[l]; {
	case !listed:
		return string(l), true
	case w != nil:
		return *w, true
	}
	return "", false
}

// Clamp returns the level that stands for l: l itself, or else the next higher one that
// the model has, or else the next lower one. It returns ThinkingOff for a model that
// has no other, and the empty level for itself.
func (m ThinkingMap) Clamp(l ThinkingLevel) ThinkingLevel {
	levels := ThinkingLevels()
	at := slices.Index(levels, l)
	if at < 0 || m.Takes(l) {
		return l
	}
	for _, higher := range levels[at:] {
		if m.Takes(higher) {
			return higher
		}
	}
	for _, lower := range slices.Backward(levels[:at]) {
		if m.Takes(lower) {
			return lower
		}
	}
	return ThinkingOff
}
