package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

var noon = conversation.TimeOf(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

func timerOf(id string, seq int64, until conversation.Time) storage.Timer {
	return storage.Timer{Conv: keyOf(id), Seq: seq, Until: until}
}

func TestTimerKeyHasTheMinute(t *testing.T) {
	conv := keyOf("x")
	for until, minute := range map[conversation.Time]string{
		noon: "20260102T1200", noon + 1: "20260102T1201", noon + 60_000: "20260102T1201", noon - 1: "20260102T1200", -1: "19700101T0000",
	} {
		want := fmt.Sprintf("timer/%d/%s/%s.0000000000000007", storage.TimerShard(conv), minute, conv)
		if got := storage.TimerKey(storage.Timer{Conv: conv, Seq: 7, Until: until}); got != want {
			t.Errorf("%s has the key %s, want %s", until, got, want)
		}
	}
	shards := map[int]int{}
	for i := range 200 {
		shards[storage.TimerShard(keyOf(fmt.Sprint(i)))]++
	}
	if len(shards) != storage.TimerShards {
		t.Errorf("200 conversations have the shards %v", shards)
	}
}

func TestTimerRoundTrip(t *testing.T) {
	for _, timer := range []storage.Timer{timerOf("x", 0, noon), timerOf("y", 1e16-1, noon+1)} {
		data, err := storage.EncodeTimer(timer)
		if err != nil {
			t.Fatal(err)
		}
		got, err := storage.DecodeTimer(data)
		if diff := cmp.Diff(timer, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	data, err := storage.EncodeTimer(timerOf("x", 7, noon))
	want := fmt.Sprintf(`{"v":8,"conv":"%s","seq":7,"until":"2026-01-02T12:00:00.000Z"}`+"\n", keyOf("x"))
	if string(data) != want || err != nil {
		t.Errorf("got object %s, %v; want %s", data, err, want)
	}
}

func TestTimerIsStrict(t *testing.T) {
	for name, timer := range map[string]storage.Timer{
		"conversation": {Conv: "xyz", Until: noon}, "number": timerOf("x", -1, noon),
		"year": timerOf("x", 1, conversation.TimeOf(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))),
	} {
		if _, err := storage.EncodeTimer(timer); err == nil {
			t.Errorf("%s: encoded", name)
		}
		if err := storage.PutTimer(t.Context(), memory(t), timer); !errors.Is(err, storage.ErrRefused) {
			t.Errorf("%s: put with %v", name, err)
		}
	}
	data, err := storage.EncodeTimer(timerOf("x", 7, noon))
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	for name, content := range map[string]string{
		"older": strings.Replace(good, `"v":8`, `"v":7`, 1), "cut": good[:len(good)-3], "empty": "",
		"until": strings.Replace(good, "2026-01-02", "soon", 1), "conversation": strings.Replace(good, string(keyOf("x")), "x", 1),
	} {
		if _, err := storage.DecodeTimer([]byte(content)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	var newer *storage.FormatError
	if _, err := storage.DecodeTimer([]byte(strings.Replace(good, `"v":8`, `"v":9`, 1))); !errors.As(err, &newer) {
		t.Errorf("a newer version: %v", err)
	}
	if _, err := storage.DecodeTimer([]byte(strings.Replace(good, `"seq":7`, `"seq":7,"new":[]`, 1))); err != nil {
		t.Errorf("unknown field: got error %v", err)
	}
}

// due returns the keys that DueTimers visits.
func due(t *testing.T, b storage.Bucket, now conversation.Time) (keys []string) {
	t.Helper()
	err := storage.DueTimers(t.Context(), b, now, func(page []storage.TimerRef) error {
		for _, ref := range page {
			keys = append(keys, ref.Key)
			if ref.Minute > now {
				t.Errorf("%s is not due at %s", ref.Key, now)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestDueTimers(t *testing.T) {
	counts := storagetest.NewCounter()
	b := counts.Bucket(memory(t))
	if got := due(t, b, noon); len(got) > 0 || total(counts) != 1 {
		t.Errorf("an empty bucket has %q, asked %d times", got, total(counts))
	}
	var want []string
	for i := range 450 {
		timer := timerOf(fmt.Sprint(i), int64(i), noon-conversation.Time(i)*1000)
		if i%3 == 0 {
			timer.Until = noon + 1 + conversation.Time(i)
		} else {
			want = append(want, storage.TimerKey(timer))
		}
		if err := storage.PutTimer(t.Context(), b, timer); err != nil {
			t.Fatal(err)
		}
	}
	for _, stray := range []string{"timer/x", "timer/0/20260102T1159/x", "timer/0/now/" + string(keyOf("x")) + ".0000000000000001"} {
		if err := b.Put(t.Context(), stray, storage.Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	before := total(counts)
	if diff := cmp.Diff(want, due(t, b, noon)); diff != "" {
		t.Errorf("due at noon (-want +got):\n%s", diff)
	}
	if asked := total(counts) - before; asked > 1+2*storage.TimerShards {
		t.Errorf("%d requests for 300 timers", asked)
	}
	for i, key := range want {
		if err := storage.DeleteTimer(t.Context(), b, storage.TimerRef{Key: key}); err != nil {
			t.Fatalf("delete %d: %v", i, err)
		}
	}
	before = total(counts)
	if got := due(t, b, noon+59_999); len(got) > 0 || total(counts)-before != 1+storage.TimerShards {
		t.Errorf("later timers are shown: %q, by %d requests", got, total(counts)-before)
	}
	if got := due(t, b, noon+60_000); len(got) != 150 {
		t.Errorf("%d timers are due a minute later, want 150", len(got))
	}
	if err := storage.DeleteTimer(t.Context(), b, storage.TimerRef{Key: "format.json"}); !errors.Is(err, storage.ErrRefused) {
		t.Errorf("another key is deleted: %v", err)
	}
}

func total(c *storagetest.Counter) (n int) {
	for _, m := range c.Counts() {
		n += m
	}
	return n
}

// TestPutTimer checks that a timer is stored under every fault, and may be put again.
func TestPutTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := timerOf("x", 7, noon)
		ref := storage.TimerRef{Key: storage.TimerKey(timer), Conv: timer.Conv, Seq: 7}
		store := memory(t)
		b := faults(store, "PUT", storagetest.Timeout, storagetest.LostAck, storagetest.None)
		if _, err := storage.ReadTimer(t.Context(), b, ref); !errors.Is(err, storage.ErrNotFound) {
			t.Fatalf("read before it is put: %v", err)
		}
		for range 2 {
			if err := storage.PutTimer(t.Context(), b, timer); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := storage.ReadTimer(t.Context(), b, ref); err != nil || got != timer {
			t.Errorf("read %+v, %v", got, err)
		}
		var corrupt *storage.CorruptError
		for _, bad := range []string{"x", `{"v":8,"conv":"` + string(keyOf("y")) + `","seq":7,"until":"2026-01-02T12:00:00.000Z"}`} {
			if err := store.Put(t.Context(), ref.Key, storage.Bytes([]byte(bad))); err != nil {
				t.Fatal(err)
			}
			if _, err := storage.ReadTimer(t.Context(), b, ref); !errors.As(err, &corrupt) {
				t.Errorf("%s is read with %v", bad, err)
			}
		}
	})
}

func FuzzDecodeTimer(f *testing.F) {
	for _, timer := range []storage.Timer{timerOf("x", 0, noon), timerOf("y", 9, noon+1)} {
		data, err := storage.EncodeTimer(timer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-4])
	}
	f.Add([]byte(`{"v":9}`))
	f.Add([]byte(`{"v":8,"conv":"","seq":-1,"until":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		timer, err := storage.DecodeTimer(data)
		if err != nil {
			return
		}
		again, err := storage.EncodeTimer(timer)
		if err != nil {
			t.Fatalf("encode decoded value: %v", err)
		}
		if got, err := storage.DecodeTimer(again); err != nil || got != timer {
			t.Fatalf("second decode: %+v, %v; first %+v", got, err, timer)
		}
	})
}

// FuzzTimerKey checks that every accepted timer key is exactly what TimerKey returns.
func FuzzTimerKey(f *testing.F) {
	conv := string(keyOf("x"))
	f.Add(storage.TimerKey(timerOf("x", 7, noon)))
	for _, key := range []string{
		"timer/0/20260102T1200/" + conv + ".7", "timer/00/20260102T1200/" + conv + ".0000000000000007", "timer/9/20260102T1200/" + conv + ".0000000000000007",
		"timer/0/20260102T1260/" + conv + ".0000000000000007", "timer/0/20260102T1200/.0000000000000007", "timer/0/20260102T1200/x", "timer/", "pending/x", "",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name, err := storage.ParseKey(key)
		if err != nil || name.Kind != storage.KindTimer {
			return
		}
		minute, err := time.Parse("20060102T1504", strings.Split(key, "/")[2])
		if err != nil {
			t.Fatalf("parsed %q as a timer without a minute: %v", key, err)
		}
		timer := storage.Timer{Conv: name.Conv, Seq: name.First, Until: conversation.TimeOf(minute)}
		if _, err := storage.EncodeTimer(timer); err != nil || storage.TimerKey(timer) != key {
			t.Errorf("parsed %q as %+v: %v", key, timer, err)
		}
	})
}
