package storage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func TestEnsureFormat(t *testing.T) {
	for name, tt := range map[string]struct {
		stored map[string]string
		want   int // Stored version of the error; 8 is no error.
	}{
		"empty bucket":     {nil, 8},
		"this version":     {map[string]string{"format.json": `{"schemaVersion":8,"minWriter":8}`, "x": "y"}, 8},
		"unknown fields":   {map[string]string{"format.json": `{"schemaVersion":8,"minWriter":8,"x":1}`}, 8},
		"version 5":        {map[string]string{"format.json": `{"schemaVersion":5}`}, 5},
		"version 7":        {map[string]string{"format.json": `{"schemaVersion":7,"minWriter":7}`}, 7},
		"version 9":        {map[string]string{"format.json": `{"schemaVersion":9,"minWriter":8}`}, 9},
		"newer writers":    {map[string]string{"format.json": `{"schemaVersion":8,"minWriter":9}`}, -8},
		"no JSON":          {map[string]string{"format.json": `x`}, -1},
		"no version":       {map[string]string{"format.json": `{}`}, -1},
		"version a text":   {map[string]string{"format.json": `{"schemaVersion":"8"}`}, -1},
		"data, no stamp":   {map[string]string{"aa/x": "y"}, 0},
		"stray file above": {map[string]string{"zz": "y"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := bucket(t, memory(t))
			for k, v := range tt.stored {
				if err := b.Create(t.Context(), k, storage.Bytes([]byte(v))); err != nil {
					t.Fatal(err)
				}
			}
			err := storage.EnsureFormat(t.Context(), b)
			var format *storage.FormatError
			switch {
			case tt.want == 8 && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want == 8:
				got, err := b.Get(t.Context(), "format.json")
				if err != nil || !strings.HasPrefix(string(got), `{"schemaVersion":8,"minWriter":8`) {
					t.Errorf("stamp is %q, %v", got, err)
				}
			case !errors.As(err, &format) || format.SupportedVersion != 8 || format.Reason == "" || format.StoredVersion != tt.want && tt.want != -8:
				t.Errorf("got %v, want stored version %d", err, tt.want)
			}
			if _, err := b.Get(t.Context(), "format.json"); tt.want == 0 && !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("a refused bucket was stamped: %v", err)
			}
		})
	}
}

// TestEnsureFormatRace starts several nodes at once, each of which writes as soon
// as its check is through.
func TestEnsureFormatRace(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			var wg sync.WaitGroup
			for node := range 4 {
				b := bucket(t, storagetest.Faulty(store, storagetest.Plan{
					Seed: seed<<8 | uint64(node), Latency: 1 << 30,
					Rates: map[storagetest.Kind]float64{storagetest.LostAck: .1, storagetest.ErrorAfter: .1, storagetest.Timeout: .1},
				}))
				wg.Go(func() {
					switch err := storage.EnsureFormat(t.Context(), b); {
					case err == nil:
						writeSomething(t.Context(), b)
					case !errors.Is(err, storage.ErrUnavailable):
						t.Errorf("seed %d node %d: %v", seed, node, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// writeSomething stands for what a node does after the check; its outcome does
// not matter here.
func writeSomething(ctx context.Context, b storage.Bucket) {
	_ = b.Put(ctx, "aa/data", storage.Bytes([]byte("x")))
}
