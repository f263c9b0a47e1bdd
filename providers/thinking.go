package providers

import (
	"maps"
	"slices"
)

// ThinkingLevel is the requested amount of reasoning. The empty level means the vendor's default.
// ThinkingOff disables reasoning, which most vendors require explicitly.
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

// ThinkingLevels returns the levels in ascending order.
func ThinkingLevels() []ThinkingLevel {
	return []ThinkingLevel{ThinkingOff, ThinkingMinimal, ThinkingLow, ThinkingMedium, ThinkingHigh, ThinkingXHigh, ThinkingMax}
}

// Valid reports whether l is empty or one of the levels.
func (l ThinkingLevel) Valid() bool { return l == "" || slices.Contains(ThinkingLevels(), l) }

// Budget returns the token budget of a level, for vendors that need one, and 0 for no thinking.
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

// ThinkingMap maps levels to the vendor's values; nil marks a level that the model does not have. A
// level that is not in the map uses its own name; ThinkingXHigh and ThinkingMax need an entry. A nil
// ThinkingOff means that the model always thinks.
type ThinkingMap map[ThinkingLevel]*string

// clone returns a deep copy of m.
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

// Word returns the vendor's value for a level: that of the map, else the level's own name. ok is false
// if the map excludes the level.
func (m ThinkingMap) Word(l ThinkingLevel) (word string, ok bool) {
	switch w, listed := m[l]; {
	case !listed:
		return string(l), true
	case w != nil:
		return *w, true
	}
	return "", false
}

// Clamp returns l if the model has it, else the next higher level that it has, else the next lower
// one. It returns ThinkingOff for a model without other levels, and the empty level unchanged.
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
