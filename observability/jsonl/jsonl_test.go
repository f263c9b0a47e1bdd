package jsonl_test

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/sinktest"
)

func open(t *testing.T, path string, opts *jsonl.Options) *jsonl.File {
	t.Helper()
	f, err := jsonl.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

func write(t *testing.T, s observability.Sink, events ...observability.Event) {
	t.Helper()
	if err := s.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// distinct reads events, checks that every line is valid, and returns each id once.
func distinct(t *testing.T, lines iter.Seq2[observability.Event, error]) (events []observability.Event) {
	t.Helper()
	seen := map[string]bool{}
	for e, err := range lines {
		if err != nil {
			t.Fatal(err)
		}
		if !seen[e.ID] {
			events = append(events, e)
		}
		seen[e.ID] = true
	}
	return events
}

func ids(events []observability.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// manyEvents is the number of events in one Write.
var manyEvents = sample.Of(10_000, 1_000)

// TestFilePassesTheSuite opens two Files on each path.
func TestFilePassesTheSuite(t *testing.T) {
	for name, opts := range map[string]*jsonl.Options{
		"synced": nil, "rotated": {SyncEvery: time.Hour, MaxBytes: 20_000, Keep: 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			paths := map[observability.Sink]string{}
			sinktest.Run(t, sinktest.Options{
				Many: manyEvents,
				New: func(t *testing.T) (observability.Sink, func(*testing.T) []observability.Event) {
					path := filepath.Join(t.TempDir(), "events.jsonl")
					f := open(t, path, opts)
					paths[f] = path
					return f, func(t *testing.T) []observability.Event { return distinct(t, jsonl.ReadFiles(path)) }
				},
				Second: func(t *testing.T, first observability.Sink) observability.Sink { return open(t, paths[first], opts) },
			})
		})
	}
}

func TestWriterPassesTheSuite(t *testing.T) {
	sinktest.Run(t, sinktest.Options{Many: manyEvents, New: func(*testing.T) (observability.Sink, func(*testing.T) []observability.Event) {
		var out strings.Builder
		return jsonl.NewWriter("stdout", &out), func(t *testing.T) []observability.Event {
			return distinct(t, jsonl.Read(strings.NewReader(out.String())))
		}
	}})
}

func TestRotationKeepsTheNewest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := open(t, path, &jsonl.Options{MaxBytes: 1, Keep: 3})
	// Names of other files are not touched.
	for _, name := range []string{".old", ".0007", ".-00001"} {
		if err := os.WriteFile(path+name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	events := sinktest.Sample()
	for _, e := range events[:8] {
		write(t, f, e)
	}
	files, err := jsonl.Files(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{path + ".000005", path + ".000006", path + ".000007", path}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(events[4:8], distinct(t, jsonl.ReadFiles(path))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, name := range []string{".old", ".0007", ".-00001"} {
		if _, err := os.Stat(path + name); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want owner access only", info.Mode(), err)
	}
}

// TestOtherFileFollowsRotation checks that a File writes to the new file of another's rotation.
func TestOtherFileFollowsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	one, two := open(t, path, &jsonl.Options{MaxBytes: 1}), open(t, path, nil)
	events := sinktest.Sample()
	write(t, one, events[0])
	write(t, two, events[1])
	write(t, one, events[2]) // renames
	write(t, two, events[3])
	current, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	if diff := cmp.Diff(ids(events[2:4]), ids(distinct(t, jsonl.Read(current)))); diff != "" {
		t.Errorf("events of the new file (-want +got):\n%s", diff)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, two, events[4])
	if diff := cmp.Diff(ids([]observability.Event{events[0], events[1], events[4]}), ids(distinct(t, jsonl.ReadFiles(path)))); diff != "" {
		t.Errorf("events after the file was removed (-want +got):\n%s", diff)
	}
}

// TestTornLines truncates a file at every length, like a crash, and continues writing.
func TestTornLines(t *testing.T) {
	events := sinktest.Sample()[:3]
	path := filepath.Join(t.TempDir(), "events.jsonl")
	write(t, open(t, path, nil), events[:2]...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Index(string(whole), "\n") + 1
	for cut := range len(whole) + 1 {
		want := 0
		if cut >= first-1 {
			want++ // only the line break is missing
		}
		if cut >= len(whole)-1 {
			want++
		}
		if got := distinct(t, jsonl.Read(strings.NewReader(string(whole[:cut])))); len(got) != want {
			t.Fatalf("%d events of %d bytes, want %d", len(got), cut, want)
		}
		if cut%37 != 0 && cut < len(whole)-2 {
			continue
		}
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, open(t, path, &jsonl.Options{SyncEvery: -1}), events[2])
		got, bad := 0, 0
		for e, err := range jsonl.ReadFiles(path) {
			if lineErr := (*jsonl.LineError)(nil); errors.As(err, &lineErr) {
				bad++
			} else if err != nil {
				t.Fatal(err)
			} else if got++; got > want && e.ID != events[2].ID {
				t.Errorf("got event %s after truncation at %d", e.ID, cut)
			}
		}
		if got != want+1 || bad > 1 {
			t.Errorf("after a cut at %d: %d events, %d bad lines", cut, got, bad)
		}
	}
}

func TestReadGoesOnAfterBadLines(t *testing.T) {
	line, err := sinktest.Sample()[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text := string(line) + "\r\n\n   \n{\"v\":3,\"type\":\"nap\"}\n" + strings.Repeat("x", jsonl.MaxLineBytes+1) + "\n" + string(line) + "\n{\"v\":3"
	var got []string
	for e, err := range jsonl.Read(strings.NewReader(text)) {
		var bad *jsonl.LineError
		var unknown *observability.UnknownTypeError
		switch {
		case errors.As(err, &unknown) && errors.As(err, &bad):
			got = append(got, "unknown "+string(unknown.Type))
		case errors.Is(err, jsonl.ErrLineTooLong) && errors.As(err, &bad):
			got = append(got, "too long")
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(e.Type))
		}
		if bad != nil && bad.Line != len(got)+2 {
			t.Errorf("%v, want line %d", bad, len(got)+2)
		}
	}
	want := []string{"submission_queued", "unknown nap", "too long", "submission_queued"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

func TestReadStops(t *testing.T) {
	broken := errors.New("the disk is gone")
	line, err := sinktest.Sample()[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		_, err := w.Write(append(line, '\n'))
		w.CloseWithError(errors.Join(broken, err))
	}()
	var errs []error
	for _, err := range jsonl.Read(r) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], broken) {
		t.Errorf("got errors %v, want none and the stream's", errs)
	}
	n := 0
	for range jsonl.Read(strings.NewReader(strings.Repeat(string(line)+"\n", 3))) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d events after a break", n)
	}
	for _, err := range jsonl.ReadFiles(filepath.Join(t.TempDir(), "none", "events.jsonl")) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("missing folder: got %v", err)
		}
	}
}

// stutter accepts a part of one write.
type stutter struct {
	strings.Builder
	after int
}

func (s *stutter) Write(p []byte) (int, error) {
	if s.after > 0 && len(p) > s.after {
		n, _ := s.Builder.Write(p[:s.after])
		s.after = 0
		return n, errors.New("no room")
	}
	return s.Builder.Write(p)
}

func TestWriterEndsATornLine(t *testing.T) {
	out := &stutter{after: 10}
	w := jsonl.NewWriter("stdout", out)
	events := sinktest.Sample()[:2]
	if err := w.Write(t.Context(), events); err == nil {
		t.Fatal("partial Write: got no error")
	}
	write(t, w, events...)
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || len(lines[0]) != 10 || lines[3] != "" {
		t.Errorf("got lines %q", lines)
	}
	if w.Name() != "stdout" {
		t.Errorf("got name %q", w.Name())
	}
}

func TestWriteAfterClose(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "events.jsonl"), &jsonl.Options{Name: "audit"})
	if f.Name() != "audit" {
		t.Errorf("got name %q", f.Name())
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), sinktest.Sample()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write after close: got %v", err)
	}
	if _, err := jsonl.Open(filepath.Join(t.TempDir(), "none", "events.jsonl"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in a missing folder: got %v", err)
	}
}

// TestWriteRecovers removes the file's folder and restores it.
func TestWriteRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "events.jsonl")
	f := open(t, path, nil)
	events := sinktest.Sample()[:2]
	write(t, f, events[0])
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), events[1:]); err == nil {
		t.Fatal("Write to a deleted folder: got no error")
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	write(t, f, events[1])
	if diff := cmp.Diff(ids(events), ids(distinct(t, jsonl.ReadFiles(path)))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// FuzzRead checks that every event read from any input can be written and read again.
func FuzzRead(f *testing.F) {
	line, err := sinktest.Sample()[0].MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "\n\n", string(line), string(line) + "\n" + string(line[:40]), "{}\n[]\nnull\n", "\xff\n" + string(line) + "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var events []observability.Event
		bad := 0
		for e, err := range jsonl.Read(strings.NewReader(text)) {
			if err == nil {
				events = append(events, e)
			} else if bad++; !errors.As(err, new(*jsonl.LineError)) {
				t.Fatal(err)
			}
		}
		if lines := strings.Count(text, "\n") + 1; len(events)+bad > lines {
			t.Fatalf("got %d events and %d bad lines of %d", len(events), bad, lines)
		}
		var out strings.Builder
		write(t, jsonl.NewWriter("out", &out), events...)
		n := 0
		for e, err := range jsonl.Read(strings.NewReader(out.String())) {
			if err != nil || e.ID != events[n].ID {
				t.Fatalf("event %d: got %s, %v", n, e.ID, err)
			}
			n++
		}
		if n != len(events) {
			t.Fatalf("got %d of %d events", n, len(events))
		}
	})
}
