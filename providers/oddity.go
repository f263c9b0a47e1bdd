package providers

import "slices"

// Oddity is a part of a response that deviates from the format. It was skipped or read as the most
// similar part of the format.
type Oddity struct {
	// Kind is the path of a member, such as "usage.cost", or the name of a rule, such as "end". A
	// format has few kinds.
	Kind string
	// Word is the vendor's value, see VendorWord, "" if there is none.
	Word string
}

// maxOddities bounds the kinds that are reported for one response.
const maxOddities = 16

// Odd reports an oddity to Options.Odd, each kind once in a response.
func (a *Assembler) Odd(kind, word string) {
	if a.onOdd == nil || len(a.odd) == maxOddities || slices.Contains(a.odd, kind) {
		return
	}
	a.odd = append(a.odd, kind)
	if word != "" {
		word = VendorWord(word)
	}
	a.onOdd(Oddity{Kind: kind, Word: word})
}

// Skip returns an sse.JSON.Skip that reports members of unexpected type as oddities, except holders,
// which contain the answer.
func (a *Assembler) Skip(holders ...string) func(path string) bool {
	return func(path string) bool {
		if slices.Contains(holders, path) {
			return false
		}
		a.Odd(path, "")
		return true
	}
}

// hidingOdd returns odd with secrets removed from the words.
func hidingOdd(odd func(Oddity), secrets []string) func(Oddity) {
	if odd == nil {
		return nil
	}
	return func(o Oddity) {
		o.Word = HideSecrets(o.Word, secrets)
		odd(o)
	}
}
