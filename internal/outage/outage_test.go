package outage_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/outage"
	"github.com/parleyrun/parley/internal/waiting"
)

var (
	errAway  = errors.New("no answer")
	errOther = errors.New("request refused")
	lines    = outage.Lines{Began: "began", Continues: "continues", Ended: "ended"}
)

// rig is a log that suppresses records of errAway while requests fail.
type rig struct {
	out *waiting.Log
	log *slog.Logger
	*outage.Outage
}

func newRig(settle time.Duration) *rig {
	r := &rig{out: &waiting.Log{}}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	r.log = slog.New(outage.NewHandler(slog.NewTextHandler(r.out, &slog.HandlerOptions{ReplaceAttr: noTime})))
	r.Outage = outage.Watch(r.log, lines, settle, func(err error) bool { return errors.Is(err, errAway) })
	return r
}

func (r *rig) fail(times int) {
	for range times {
		r.Failed(time.Now())
	}
}

// loggedBy compares the log lines of do, run in a bubble.
func loggedBy(t *testing.T, do func(*rig), want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(3 * time.Second)
		do(r)
		if got := r.out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

const began = "level=WARN msg=began operation=a err=\"put x: no answer\"\n"

var errUnavailable = fmt.Errorf("put x: %w", errAway)

func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *rig)
		want string
	}{
		"two lines of an outage": {func(r *rig) {
			r.fail(1)
			time.Sleep(time.Second)
			r.fail(1)
			for range 50 {
				r.log.With("conversation", "c").Error("a", "err", errUnavailable)
			}
			time.Sleep(28 * time.Second)
			r.Succeeded()
			time.Sleep(time.Second)
			r.log.Warn("b", "err", errUnavailable) // of a request sent during the outage
			time.Sleep(2 * time.Second)
			r.Succeeded()
		}, "level=ERROR msg=began conversation=c operation=a err=\"put x: no answer\"\nlevel=INFO msg=ended duration=29s suppressed=50\n"},
		"a line each minute": {func(r *rig) {
			r.fail(2)
			for range 130 {
				r.log.Warn("a", "err", errUnavailable)
				time.Sleep(time.Second)
			}
		}, began + "level=WARN msg=continues duration=1m0s suppressed=60 err=\"put x: no answer\" operation=a\n" +
			"level=WARN msg=continues duration=2m0s suppressed=120 err=\"put x: no answer\" operation=a\n"},
		"requests that fail now and then": {func(r *rig) {
			for range 4 {
				r.fail(2)
				r.log.Warn("a", "err", errUnavailable)
				time.Sleep(time.Second)
				r.Succeeded()
			}
			time.Sleep(3 * time.Second)
			r.Succeeded()
			r.fail(2)
			r.Succeeded()
		}, began + "level=INFO msg=ended duration=4s suppressed=3\n"},
		"a request of the outage that fails late": {func(r *rig) {
			sent := time.Now()
			r.fail(2)
			r.log.Warn("a", "err", errUnavailable)
			time.Sleep(time.Second)
			r.Succeeded()
			time.Sleep(2 * time.Second)
			r.Failed(sent)
			time.Sleep(time.Second)
			r.Succeeded()
		}, began + "level=INFO msg=ended duration=1s suppressed=0\n"},
		"one request that fails": {func(r *rig) {
			r.fail(1)
			r.log.Warn("a", "err", errUnavailable)
			r.Succeeded()
		}, "level=WARN msg=a err=\"put x: no answer\"\n"},
		"no request that fails": {func(r *rig) {
			r.log.Warn("a", "err", errUnavailable)
		}, "level=WARN msg=a err=\"put x: no answer\"\n"},
	} {
		t.Run(name, func(t *testing.T) { loggedBy(t, c.do, c.want) })
	}
}

func TestLinesOfAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(r *rig)
		want string
	}{
		"records of other errors, of a ref, and of the end of the process": {func(r *rig) {
			r.fail(2)
			r.log.Warn("a", "err", errUnavailable)
			r.log.Warn("b", "err", errOther)
			r.log.Warn("c", "cause", errUnavailable)
			r.log.Warn("d", "ref", "err_1", "err", errUnavailable)
			r.log.Warn("e", "err", errUnavailable, "ref", "err_2")
			r.log.Info("f")
			outage.Unfiltered(r.log.With("k", 1)).Error("g", "err", errUnavailable)
		}, began + "level=WARN msg=b err=\"request refused\"\nlevel=WARN msg=d ref=err_1 err=\"put x: no answer\"\n" +
			"level=WARN msg=e err=\"put x: no answer\" ref=err_2\nlevel=INFO msg=f\nlevel=ERROR msg=g k=1 err=\"put x: no answer\"\n"},
		"failures that are reported": {func(r *rig) {
			o := outage.New(r.log, lines, 0)
			o.Succeeded()
			for range 90 {
				o.Report(errOther, "sink", "x")
				time.Sleep(time.Second)
			}
			o.Succeeded()
			o.Succeeded()
		}, "level=WARN msg=began err=\"request refused\" sink=x\nlevel=WARN msg=continues duration=1m0s suppressed=60 err=\"request refused\" sink=x\n" +
			"level=INFO msg=ended duration=1m30s suppressed=89\n"},
	} {
		t.Run(name, func(t *testing.T) { loggedBy(t, c.do, c.want) })
	}
}

// A handler without an outage, and a logger without a handler, forward all records.
func TestLogWithoutOutage(t *testing.T) {
	out := &waiting.Log{}
	plain := slog.New(slog.NewTextHandler(out, nil))
	o := outage.Watch(plain, lines, 0, func(error) bool { return true })
	o.Failed(time.Now())
	o.Failed(time.Now())
	slog.New(outage.NewHandler(plain.Handler())).WithGroup("g").Warn("a", "err", io.EOF)
	plain.Warn("a", "err", io.EOF)
	if got := out.Count("msg=a"); got != 2 || outage.Filters(plain) || outage.Unfiltered(plain) != plain {
		t.Errorf("got %d lines, want 2:\n%s", got, out)
	}
}
