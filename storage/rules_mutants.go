//go:build mutants

package storage

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Names of the rules that SetRule knows.
const (
	RuleFrozenBody  = "R1"   // A retry sends the same bytes.
	RuleReadBack    = "R2"   // A 412 is read back.
	RulePinFirst    = "R3"   // The first batch of a writer is not deleted.
	RuleVerifyClaim = "R4"   // The first batch is acknowledged after a LIST.
	RuleKeepHighest = "R5"   // The highest key of a log is not deleted.
	RuleCheckChain  = "R6"   // Batches continue the chain, and segments win.
	RuleListBack    = "back" // A journal lists the conversation before its quarantine ends.
)

var rules struct{ frozenBody, readBack, pinFirst, verifyClaim, keepHighest, checkChain, listBack disabled }

// disabled is false, so the rule holds, unless a test sets it.
type disabled struct{ atomic.Bool }

// SetRule switches a rule of the log on or off for the whole process. It exists only in builds with
// the tag mutants.
func SetRule(name string, on bool) {
	rule := map[string]*disabled{
		RuleFrozenBody: &rules.frozenBody, RuleReadBack: &rules.readBack, RulePinFirst: &rules.pinFirst,
		RuleVerifyClaim: &rules.verifyClaim, RuleKeepHighest: &rules.keepHighest, RuleCheckChain: &rules.checkChain,
		RuleListBack: &rules.listBack,
	}[name]
	if rule == nil {
		panic(fmt.Sprintf("storage: no rule %q", name))
	}
	rule.Store(!on)
}

func frozenBody() bool  { return !rules.frozenBody.Load() }
func readBack() bool    { return !rules.readBack.Load() }
func pinFirst() bool    { return !rules.pinFirst.Load() }
func verifyClaim() bool { return !rules.verifyClaim.Load() }
func keepHighest() bool { return !rules.keepHighest.Load() }
func checkChain() bool  { return !rules.checkChain.Load() }

func putBackSteps(list, remove func() error) []func() error {
	if rules.listBack.Load() {
		return []func() error{remove, list}
	}
	return []func() error{list, remove}
}

type pendingKey struct{}

// WithPending makes an Append under ctx send other lines on a retry when R1 is off: those pending by
// then, including the lines of the first attempt. It exists only in builds with the tag mutants.
func WithPending(ctx context.Context, pending func() []byte) context.Context {
	return context.WithValue(ctx, pendingKey{}, pending)
}

func (w *Writer) rebuild(ctx context.Context, head Header, lines []byte) ([]byte, Hash) {
	if pending, ok := ctx.Value(pendingKey{}).(func() []byte); ok {
		lines = pending()
	}
	data, hash, err := encodeBatch(w.logs.frames, head, lines)
	if err != nil {
		panic(fmt.Sprintf("storage: rebuild batch %d: %v", head.Seq, err))
	}
	return data, hash
}
