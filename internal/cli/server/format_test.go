package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
	"github.com/parleyrun/parley/storage"
)

// application holds all author code that a node may run, and counts calls.
type application struct {
	providers.Protocol               // the model
	hold               chan struct{} // the model sends no answer until it is closed
	asked              chan struct{} // receives a value per call of the model
	models, functions  atomic.Int32
}

// Stream implements providers.Protocol.
func (a *application) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		a.models.Add(1)
		a.asked <- struct{}{}
		select {
		case <-a.hold:
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		for e, err := range a.Protocol.Stream(ctx, m, req, o) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// agent returns an agent with every kind of hook.
func (a *application) agent() *agent.Agent {
	ran := func() { a.functions.Add(1) }
	return &agent.Agent{
		Name: "echo", Model: cli.DemoModel,
		InstructionsFunc: func(context.Context, *agent.Turn) (string, error) { ran(); return "Be terse.", nil },
		Prepare:          func(context.Context, *agent.Turn, *agent.Setup) error { ran(); return nil },
		Hooks: agent.Hooks{
			DeliveryStarted:  func(context.Context, *agent.Turn) error { ran(); return nil },
			ResponseStarted:  func(context.Context, *agent.Turn) (map[string]any, error) { ran(); return nil, nil },
			WouldStop:        func(context.Context, *agent.Response) (string, error) { ran(); return "", nil },
			ResponseFinished: func(context.Context, *agent.Response) (map[string]any, error) { ran(); return nil, nil },
			Settled:          func(context.Context, *agent.Settlement) error { ran(); return nil },
		},
	}
}

// node returns a node that runs the application on a folder.
func (a *application) node(t *testing.T, dir string) *backend {
	t.Helper()
	b, err := a.open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (a *application) open(t *testing.T, dir string) (*backend, error) {
	t.Helper()
	reg := providers.NewRegistry(nil)
	reg.RegisterProtocol(demo.API, a)
	if err := reg.RegisterProvider("demo", demo.Registration()); err != nil {
		t.Fatal(err)
	}
	return newBackend(t.Context(), nodeConfig{
		bucket: config.Bucket{Dir: dir}, agents: []*agent.Agent{a.agent()}, providers: reg,
		listen: "127.0.0.1:0", log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
}

// program returns a program with a counting author function in each of its fields.
func (a *application) program() *cli.Program {
	ran := func() { a.functions.Add(1) }
	return &cli.Program{
		Agents:    []*agent.Agent{a.agent()},
		Workflows: []agent.AnyWorkflow{agent.NewWorkflow("nightly", func(context.Context, struct{}) (string, error) { ran(); return "", nil }, nil)},
		Protocols: map[string]providers.Protocol{demo.API: a},
		Middleware: []func(http.Handler) http.Handler{func(next http.Handler) http.Handler {
			ran()
			return next
		}},
		Mounts: map[string]http.Handler{"/own": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran() })},
		Channels: func(conversation.Dispatcher) (map[string]channels.Channel, error) {
			ran()
			return nil, nil
		},
		Observers: []observability.Sink{countingSink{ran}},
		Targets:   map[string]outbox.Target{"own": countingTarget{ran}},
	}
}

type countingSink struct{ ran func() }

// Name implements observability.Sink.
func (s countingSink) Name() string { s.ran(); return "counting" }

// Write implements observability.Sink.
func (s countingSink) Write(context.Context, []observability.Event) error { s.ran(); return nil }

type countingTarget struct{ ran func() }

// Deliver implements outbox.Target.
func (c countingTarget) Deliver(context.Context, outbox.Post) error { c.ran(); return nil }

// A new field of a program must be covered by the tests of other formats.
func TestProgramHasAFunctionOfEachKind(t *testing.T) {
	v := reflect.ValueOf(*new(application).program())
	for i := range v.NumField() {
		// Registrations are data.
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Providers") {
			t.Errorf("member %s of the program: got zero value %v; give it a function that counts", name, v.Field(i).IsZero())
		}
	}
}

// during runs a node until do returns.
func during(t *testing.T, b *backend, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }()
	select {
	case <-b.runtime.Ready():
		do()
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	if err := errors.Join(<-ended, b.close()); err != nil {
		t.Fatal(err)
	}
}

// stored returns every object of a folder's bucket.
func stored(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	clitest.OnFolder(t, dir, func(b storage.Bucket) {
		for _, key := range clitest.Keys(t, b, "") {
			data, err := b.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			all[key] = string(data)
		}
	})
	return all
}

// A node starts on a folder with pending work and the stamp of another format. It ends with an error
// for the user before the model, a hook or other author code has run, and changes nothing. With its
// own stamp restored, the same folder settles the pending work.
// covers: upgrade/22, upgrade/23
func TestAnotherFormatRunsNothing(t *testing.T) {
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), clitest.EchoConfig(t, dir, clitest.DirBucket(dir))
	own := filepath.Join(dir, "own.yaml")
	clitest.Write(t, own, "listen: 127.0.0.1:0\n"+clitest.DirBucket(dir)+"\n")
	first := &application{Protocol: demo.New(0), hold: make(chan struct{}), asked: make(chan struct{}, 100)}
	at := conversation.Address{Agent: "echo", ID: "x"}
	b := first.node(t, data)
	during(t, b, func() {
		delivery := conversation.Delivery{Kind: conversation.KindUser, Body: "hello"}
		if _, err := b.runtime.Admit(t.Context(), conversation.Admission{Address: at, Key: "k", Delivery: delivery}); err != nil {
			t.Fatal(err)
		}
		<-first.asked
	})
	second := &application{Protocol: demo.New(0), hold: make(chan struct{}), asked: make(chan struct{}, 100)}
	close(second.hold)
	for _, tt := range []struct{ stamp, want string }{
		{`{"schemaVersion":5}`, "stored format 5, supported format 8: the bucket is older; run the version that wrote it and import its conversations by \"parley import flue\""},
		{`{"schemaVersion":7,"minWriter":7}`, "stored format 7, supported format 8: the bucket is older; run the version that wrote it and import its conversations by \"parley import flue\""},
		{`{"schemaVersion":9,"minWriter":9}`, "stored format 9, supported format 8: writers need version 9; upgrade this program"},
		{`{"schemaVersion":8,"minWriter":9}`, "writers need version 9; upgrade this program"},
		{`{"schemaVersion":0}`, "format.json is unreadable; restore it or use an empty bucket"},
		{"", "but no format.json; use an empty bucket"},
	} {
		restamp(t, data, tt.stamp)
		before := stored(t, data)
		_, err := second.open(t, data)
		var format *storage.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("folder %s: ", data)) {
			t.Errorf("over %q: got %v, want a format error with the folder and %q", tt.stamp, err, tt.want)
		}
		if code, out, errOut := program.Output(t, "serve", "--config", file); code != 1 || out != "" || !strings.Contains(errOut, tt.want) || !strings.Contains(errOut, data) {
			t.Errorf("serve over %q: exit %d, %q, %q; want exit 1 and %q", tt.stamp, code, out, errOut, tt.want)
		}
		if code, _, errOut := program.Output(t, "dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data); code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("dev over %q: exit %d, %q", tt.stamp, code, errOut)
		}
		for _, args := range [][]string{
			{"serve", "--config", own}, {"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, {"dev", "--quiet", "--config", own},
			{"run", "echo", "--data", data, "-m", "hello"}, {"chat", "echo", "--data", data, "--id", "x"},
		} {
			var errOut bytes.Buffer
			if code := second.program().Run(t.Context(), args, io.Discard, &errOut, Commands); code != 1 || !strings.Contains(errOut.String(), tt.want) {
				t.Errorf("%q over %q: got exit %d, %q; want exit 1 and %q", args, tt.stamp, code, errOut.String(), tt.want)
			}
		}
		if d := cmp.Diff(before, stored(t, data)); d != "" {
			t.Errorf("over %q something was written:\n%s", tt.stamp, d)
		}
	}
	if m, f := second.models.Load(), second.functions.Load(); m != 0 || f != 0 {
		t.Errorf("the model ran %d times, functions of the author %d times", m, f)
	}
	restamp(t, data, `{"schemaVersion":8,"minWriter":8}`)
	b = second.node(t, data)
	during(t, b, func() { <-second.asked })
	if m, f := second.models.Load(), second.functions.Load(); m == 0 || f == 0 {
		t.Errorf("with its own stamp the model ran %d times, functions of the author %d times", m, f)
	}
}

// restamp replaces the stamp of a folder, or removes it.
func restamp(t *testing.T, dir, stamp string) {
	t.Helper()
	clitest.OnFolder(t, dir, func(b storage.Bucket) {
		err := b.Delete(t.Context(), "format.json")
		if stamp != "" {
			err = b.Put(t.Context(), "format.json", storage.Bytes([]byte(stamp)))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
