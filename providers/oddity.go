package providers

import "slices"

// Oddity is a part of a response that its format does not have. The part was skipped or read
// as the most similar part that the format does have.
type Oddity struct {
	// Kind is the path of a member, such as "usage.cost", or the name of a rule, such as
	// "end". A format has few kinds.
	Kind string
	// Word is the vendor's word, see VendorWord, "" if there is none.
	Word string
}

// maxOddities bounds the kinds that are reported of one response.
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

// Skip returns an sse.JSON.Skip that reports members of another type as oddities, all but
// those that hold the answer.
func (a *Assembler) Skip(holders ...string) func(path string) bool {
	return func(path string) bool {
		if slices.Contains(holders, path) {
			return false
		}
		a.Odd(path, "")
		return true
	}
}

// hidingOdd is odd for oddities without secrets in their words.
func hidingOdd(odd func(Oddity), secrets []string) func(Oddity) {
	if odd == nil {
		return nil
	}
	return func(o Oddity) {
		o.Word = HideSecrets(o.Word, secrets)
		odd(o)
	}
}
