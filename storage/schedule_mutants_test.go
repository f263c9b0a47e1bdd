//go:build mutants

package storage_test

import (
	"context"
	"testing"

	"github.com/parleyrun/parley/storage"
)

func withPending(ctx context.Context, pending func() []byte) context.Context {
	return storage.WithPending(ctx, pending)
}

// TestMutants switches off one rule after the other and expects some schedule to
// notice. Without R4 nothing can be noticed as long as no batch is ever deleted:
// the key of a stale claim is then always taken.
func TestMutants(t *testing.T) {
	for _, rule := range []string{storage.RuleFrozenBody, storage.RuleReadBack} {
		t.Run(rule, func(t *testing.T) {
			storage.SetRule(rule, false)
			defer storage.SetRule(rule, true)
			for seed := range uint64(1000) {
				if violation, _, _ := runSchedule(t, seed); violation != "" {
					t.Logf("seed %d: %s", seed, violation)
					return
				}
			}
			t.Error("no schedule noticed")
		})
	}
}

// TestMutantStaleClaim shows that R4 is what refuses a claim on a stale view once
// keys can come free.
func TestMutantStaleClaim(t *testing.T) {
	storage.SetRule(storage.RuleVerifyClaim, false)
	defer storage.SetRule(storage.RuleVerifyClaim, true)
	b := bucket(t, memory(t))
	logs := storage.NewLogs(b, nil)
	pos := mustAppend(t, logs.Writer(keyOf("x"), "n1", storage.Start(), 1), "{}\n")
	mustAppend(t, logs.Writer(keyOf("x"), "n2", pos, 2), "{}\n")
	if err := b.Delete(t.Context(), storage.LogKey(keyOf("x"), 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := logs.Writer(keyOf("x"), "stale", storage.Start(), 1).Append(t.Context(), nil, 1); err != nil {
		t.Errorf("got %v although nothing verifies the claim", err)
	}
}
