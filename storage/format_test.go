package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

func TestEnsureFormat(t *testing.T) {
	for name, tt := range map[string]struct {
		stored map[string]string
		want   int // Stored version of the error; 8 means no error.
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
		"version 0":        {map[string]string{"format.json": `{"schemaVersion":0,"minWriter":8}`}, -1},
		"version below 0":  {map[string]string{"format.json": `{"schemaVersion":-8}`}, -1},
		"not a whole one":  {map[string]string{"format.json": `{"schemaVersion":8.5}`}, -1},
		"text after it":    {map[string]string{"format.json": `{"schemaVersion":8} x`}, -1},
		"version 6":        {map[string]string{"format.json": `{"schemaVersion":6,"minWriter":5}`}, 6},
		"far newer":        {map[string]string{"format.json": `{"schemaVersion":80,"minWriter":80}`}, 80},
		"old, for newer":   {map[string]string{"format.json": `{"schemaVersion":7,"minWriter":9}`}, 7},
		"data, odd stamp":  {map[string]string{"aa/x": "y", "format.json": `{}`}, -1},
		"stray file above": {map[string]string{"zz": "y"}, 0},
		"left by probes":   {map[string]string{"probe/a/x/00": "y", "probe/b/y/01": "y", "probe/result/00": "y"}, 8},
		"probes and data":  {map[string]string{"probe/a/x/00": "y", "probf": "y"}, 0},
		"data and probes":  {map[string]string{"prob": "y", "probe/a/x/00": "y"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := memory(t)
			for k, v := range tt.stored {
				if err := b.Create(t.Context(), k, storage.Bytes([]byte(v))); err != nil {
					t.Fatal(err)
				}
			}
			var format *storage.FormatError
			before := contents(t, b)
			stamped, err := storage.CheckFormat(t.Context(), b)
			if known := tt.stored["format.json"] != ""; tt.want == 8 && (err != nil || stamped != known) || tt.want != 8 && (!errors.As(err, &format) || stamped) {
				t.Errorf("check: stamped %v, %v", stamped, err)
			}
			if d := cmp.Diff(before, contents(t, b)); d != "" {
				t.Errorf("check changed the bucket:\n%s", d)
			}
			err = storage.EnsureFormat(t.Context(), b)
			switch {
			case tt.want == 8 && err != nil:
				t.Errorf("rejected bucket: got %v", err)
			case tt.want == 8:
				got, err := b.Get(t.Context(), "format.json")
				if err != nil || !strings.HasPrefix(string(got), `{"schemaVersion":8,"minWriter":8`) {
					t.Errorf("got stamp %q, %v", got, err)
				}
			case !errors.As(err, &format) || format.SupportedVersion != 8 || format.Reason == "" || format.StoredVersion != tt.want && tt.want != -8:
				t.Errorf("got %v, want stored version %d", err, tt.want)
			}
			if d := cmp.Diff(before, contents(t, b)); tt.want != 8 && d != "" {
				t.Errorf("rejected bucket was changed:\n%s", d)
			}
		})
	}
}

// contents returns every object of a bucket.
func contents(t *testing.T, b storage.Bucket) map[string]string {
	t.Helper()
	all := map[string]string{}
	page, err := b.List(t.Context(), storage.ListQuery{})
	if err != nil || page.More {
		t.Fatal(err, page.More)
	}
	for _, k := range page.Keys {
		data, err := b.Get(t.Context(), k.Key)
		if err != nil {
			t.Fatal(err)
		}
		all[k.Key] = string(data)
	}
	return all
}

// TestFormatErrorsHaveARemedy checks that each text names both versions and a remedy.
// covers: upgrade/22, upgrade/23
func TestFormatErrorsHaveARemedy(t *testing.T) {
	for stored, want := range map[string]string{
		`{"schemaVersion":5}`:               "open bucket: stored format 5, supported format 8: the bucket is older; run the version that wrote it and import its conversations by \"parley import flue\", or use an empty bucket",
		`{"schemaVersion":7,"minWriter":7}`: "open bucket: stored format 7, supported format 8: the bucket is older; run the version that wrote it and import its conversations by \"parley import flue\", or use an empty bucket",
		`{"schemaVersion":9,"minWriter":9}`: "open bucket: stored format 9, supported format 8: writers need version 9; upgrade this program",
		`{"schemaVersion":8,"minWriter":9}`: "open bucket: stored format 8, supported format 8: writers need version 9; upgrade this program",
		`x`:                                 "open bucket: stored format -1, supported format 8: format.json is unreadable; restore it or use an empty bucket",
	} {
		b := memory(t)
		if err := b.Create(t.Context(), "format.json", storage.Bytes([]byte(stored))); err != nil {
			t.Fatal(err)
		}
		if err := storage.EnsureFormat(t.Context(), b); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", stored, err, want)
		}
	}
}

// TestEnsureFormatOnABrokenStore checks that a defect that shows in the stamp is reported at once, by
// the name of the probe's check.
func TestEnsureFormatOnABrokenStore(t *testing.T) {
	for name, want := range map[string]string{
		"answers 412 to every create": "create", "answers 501 to every create": "create", "answers 409 to every create": "create",
		"ignores start-after": "list start-after",
	} {
		synctest.Test(t, func(t *testing.T) {
			store, start := memory(t), time.Now()
			if name == "ignores start-after" {
				mustPut(t, store, "probe/a", "probe/b")
			}
			err := storage.EnsureFormat(t.Context(), flaws()[name].of(t, store))
			var refused *storage.ProbeError
			if !errors.As(err, &refused) || refused.Check != want || time.Since(start) > 10*time.Second {
				t.Errorf("%s: %v after %v, want a failure of %q", name, err, time.Since(start), want)
			}
		})
	}
}

func mustPut(t *testing.T, b storage.Bucket, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if err := b.Put(t.Context(), k, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyLeftoversOfProbes covers objects of probes that fill more than a page of a listing.
func TestManyLeftoversOfProbes(t *testing.T) {
	b := memory(t)
	for i := range 1500 {
		mustPut(t, b, fmt.Sprintf("probe/%d/x", i))
	}
	if stamped, err := storage.CheckFormat(t.Context(), b); stamped || err != nil {
		t.Errorf("with leftovers: %v, %v; want empty", stamped, err)
	}
	mustPut(t, b, "z")
	var format *storage.FormatError
	if _, err := storage.CheckFormat(t.Context(), b); !errors.As(err, &format) || !strings.Contains(err.Error(), `it holds "z"`) {
		t.Errorf("with data: %v", err)
	}
}

// TestEnsureFormatRace starts several nodes at once. Each writes as soon as its check has passed.
func TestEnsureFormatRace(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			store := memory(t)
			var wg sync.WaitGroup
			for node := range 4 {
				b := storagetest.Faulty(store, storagetest.Plan{
					Seed: seed<<8 | uint64(node), Latency: 1 << 30,
					Rates: map[storagetest.Kind]float64{storagetest.LostAck: .1, storagetest.ErrorAfter: .1, storagetest.Timeout: .1},
				})
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

// writeSomething stands for the writes of a node after the check. Their outcome does not matter.
func writeSomething(ctx context.Context, b storage.Bucket) {
	_ = b.Put(ctx, "aa/data", storage.Bytes([]byte("x")))
}
