package actors_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// scenario is one submission and the processes that work on it, one after the other, each until the
// boundary where it crashes. A boundary is the begin or end of an effect: a request to the bucket is
// sent or has landed, or a function of the author or a model is called or returns.
type scenario struct {
	*loop
	name      string // seeds the outcome of writes in flight at a crash
	lost      bool   // no write in flight lands
	suspends  bool   // a suspended call; see boundary_suspend_test.go
	runs      bool   // a run of a workflow; see boundary_run_test.go
	processes []*process
	late      sync.WaitGroup // requests that outlive their sender

	mu          sync.Mutex
	invocations []invocation
	views       []view
	landed      map[string]time.Time // time when each batch was stored, by key
	lateWrites  int                  // batches stored after their sender had crashed
	aliases     map[string]string    // names of logs in order of appearance, because ids differ between runs

	// Read by over, from one process to the next.
	seen    storage.Position
	first   conversation.SubmissionID
	settled bool
}

// invocation is one call of an author's function or of a model.
type invocation struct {
	event   string
	call    conversation.CallID
	process int
	at      time.Time
}

// view is the prompt of one model call.
type view struct {
	seen []string
	at   time.Time
}

// process is one process of a scenario.
type process struct {
	s       *scenario
	number  int
	crashAt int // boundary of the crash, counted from 0, or immortal
	crashed chan struct{}
	node    *actorNode

	mu    sync.Mutex
	down  bool
	trace []string // boundaries reached so far
	times map[string]int
}

const immortal = -1

// memberName matches the names that [actors.LocalFleet] assigns.
var memberName = regexp.MustCompile(`local-\d+`)

var errCrashed = errors.New("the process has crashed")

// draw returns a deterministic number for its arguments.
func draw(event ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, event...)
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return x ^ x>>31
}

func (p *process) reachedBoundaries() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.trace)
}

// pass reaches a boundary. It takes a unique amount of time, so that the boundaries of a scenario always
// come in the same order. It returns an error if the process has crashed before or crashes there; here
// reports which.
func (p *process) pass(ctx context.Context, name string) (here bool, err error) {
	p.mu.Lock()
	nth := p.times[name]
	p.times[name]++
	p.mu.Unlock()
	time.Sleep(time.Millisecond + time.Duration(draw(name, nth)%uint64(40*time.Millisecond)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false, errCrashed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	p.trace = append(p.trace, name)
	if len(p.trace)-1 != p.crashAt {
		return false, nil
	}
	p.down = true
	close(p.crashed)
	return true, errCrashed
}

// at is pass for code in the process: it does not return if the process crashes.
func (p *process) at(ctx context.Context, name string) error {
	_, err := p.pass(ctx, name)
	if errors.Is(err, errCrashed) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// invoke is at and records the call.
func (p *process) invoke(ctx context.Context, event string, call conversation.CallID) error {
	if err := p.at(ctx, event+" begins"); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.invocations = append(p.s.invocations, invocation{event, call, p.number, time.Now()})
	return nil
}

func (p *process) carry(ctx context.Context, c *storagetest.Call) error {
	name := p.s.alias(memberName.ReplaceAllString(c.Method+" "+c.Key, "member"))
	if here, err := p.pass(ctx, "send "+name); err != nil {
		if errors.Is(err, errCrashed) && !here {
			p.leave(ctx, c, name)
		}
		return c.Unanswered(err)
	}
	err := p.s.send(ctx, c.Op, c.Do)
	if _, err := p.pass(ctx, "landed "+name); err != nil {
		return c.Unanswered(err)
	}
	return err
}

// leave decides on a write in flight at the crash of its sender: it is lost, lands, or lands much
// later.
func (p *process) leave(ctx context.Context, c *storagetest.Call, name string) {
	random := draw(p.s.name, p.number, name)
	if c.Method != http.MethodPut && c.Method != http.MethodDelete || p.s.lost || random%4 == 0 {
		return
	}
	later, err := c.Later()
	if err != nil {
		p.s.tb.Error(err)
		return
	}
	after := time.Duration(0)
	if random%4 == 1 {
		after = time.Duration(random>>2%uint64(15*time.Second)) + time.Second
	}
	op := c.Op
	p.s.late.Go(func() {
		time.Sleep(after)
		if p.s.send(context.WithoutCancel(ctx), op, later) == nil && op.Method == http.MethodPut && strings.Contains(name, "/log/") {
			p.s.mu.Lock()
			defer p.s.mu.Unlock()
			p.s.lateWrites++
		}
	})
}

// send performs a request and records the time of a write.
func (s *scenario) send(ctx context.Context, op storagetest.Op, do func(context.Context) error) error {
	defer s.notify()
	err := do(ctx)
	if err == nil && op.Method == http.MethodPut {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.landed[op.Key] = time.Now()
	}
	return err
}

// live runs a process until it crashes, or until the work is done and the process is idle. It reports
// whether it crashed.
func (s *scenario) live(crashAt int) bool {
	s.tb.Helper()
	p := &process{s: s, number: len(s.processes), crashAt: crashAt, crashed: make(chan struct{}), times: map[string]int{}}
	s.processes = append(s.processes, p)
	done := p.start()
	go p.deliver()
	quiet := make(chan struct{})
	left := make(chan struct{})
	go func() { // Reads of a crashed process are not effects.
		defer close(left)
		for range int(longest / time.Second) {
			if s.over() {
				time.Sleep(20 * time.Second)
				close(quiet)
				return
			}
			select {
			case <-time.After(time.Second):
			case <-p.crashed:
				return
			}
		}
	}()
	crashed := false
	select {
	case <-p.crashed:
		crashed = true
	case <-quiet:
	case err := <-done:
		s.tb.Fatalf("run ended: %v", err)
	case <-time.After(longest):
		s.tb.Fatalf("process %d settled nothing:\n%s", p.number, s.lines(s.at()))
	}
	if crashed {
		p.node.crash()
	}
	p.mu.Lock()
	p.crashAt = immortal
	p.mu.Unlock()
	<-left
	synctest.Wait()
	return crashed
}

func (p *process) start() <-chan error {
	p.s.tb.Helper()
	var done <-chan error
	opts := agents(p.agent())
	if p.s.runs {
		opts.Agents = p.workflows()
	}
	p.node, done = p.s.begin(part{opts: opts, vendor: p.vendor(), windows: window}, storagetest.Through(p.s.store, p.carry))
	return done
}

// deliver retries the submission until it is accepted, as a client does.
func (p *process) deliver() {
	select {
	case <-p.node.rt.Ready():
	case <-p.crashed:
		return
	}
	p.s.mu.Lock()
	accepted := slices.ContainsFunc(p.s.invocations, func(d invocation) bool { return d.event == "accepted" })
	p.s.mu.Unlock()
	for range 30 {
		if accepted {
			return
		}
		_, err := p.node.rt.Admit(context.Background(), p.s.opening())
		select {
		case <-p.crashed:
			return
		default:
		}
		if err == nil && p.s.runs {
			err = p.approve()
		}
		if err == nil {
			p.s.mu.Lock()
			p.s.invocations = append(p.s.invocations, invocation{event: "accepted", process: p.number, at: time.Now()})
			p.s.mu.Unlock()
			return
		}
		time.Sleep(time.Second)
	}
	p.s.tb.Errorf("process %d accepted nothing", p.number)
}

// fact is a record with the time at which it became durable.
type fact struct {
	record conversation.Record
	at     time.Time
}

// at returns the conversation's address.
func (s *scenario) at() conversation.Address {
	if s.runs {
		return conversation.RunAddress(conversation.RunFor("report", "1"))
	}
	return chat("c")
}

// opening returns the admission.
func (s *scenario) opening() conversation.Admission {
	if s.runs {
		return conversation.RunOf("report", conversation.RunFor("report", "1"), []byte(`{}`))
	}
	return message(chat("c"), "1", "go")
}

// over reports whether the submission is settled. It reads no batch twice.
func (s *scenario) over() bool {
	s.seen = s.read(s.at(), s.seen, func(records []conversation.Record) {
		for _, r := range only[*conversation.SubmissionAdmitted](records) {
			s.first = cmp.Or(s.first, r.Submission)
		}
		for _, r := range only[*conversation.SubmissionSettled](records) {
			s.settled = s.settled || !s.runs || r.Submission == s.first
		}
	})
	return s.settled
}

func (s *scenario) submission() conversation.SubmissionID {
	return only[*conversation.SubmissionAdmitted](s.records(s.at()))[0].Submission
}

// logName matches the name of a log in a key.
var logName = regexp.MustCompile(`([0-9a-f]{2}/|timer/[0-9]/[0-9T]+/)[0-9a-f]{32}`)

// alias replaces the names of logs in a key by their order of appearance.
func (s *scenario) alias(name string) string {
	if !s.runs {
		return name
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return logName.ReplaceAllStringFunc(name, func(key string) string {
		digest := key[len(key)-32:]
		if s.aliases == nil {
			s.aliases = map[string]string{}
		}
		if s.aliases[digest] == "" {
			s.aliases[digest] = fmt.Sprint("log", len(s.aliases))
		}
		if strings.HasPrefix(key, "timer/") {
			return "timer/" + s.aliases[digest]
		}
		return "/" + s.aliases[digest]
	})
}

func (s *scenario) facts() []fact { return s.factsOf(s.at()) }

func (s *scenario) factsOf(at conversation.Address) []fact {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []fact
	for b, err := range s.logs.Batches(context.Background(), at.Key(), storage.Start()) {
		if err != nil {
			s.tb.Fatal(err)
		}
		records, err := conversation.DecodeRecords(b.Lines)
		if err != nil {
			s.tb.Fatal(err)
		}
		landed, ok := s.landed[storage.LogKey(at.Key(), b.Seq)]
		if !ok {
			s.tb.Fatalf("batch %d was not stored by any process", b.Seq)
		}
		for _, r := range records {
			out = append(out, fact{r, landed})
		}
	}
	return out
}

// runScenario runs a scenario in a bubble: one process for each boundary in crashAt, which crashes there, and a
// last one that does not. It ends early if a process finishes before its boundary. If lost is set, no
// write in flight at a crash lands.
func runScenario(t *testing.T, fleet *actors.LocalFleet, crashAt []int, lost bool, check func(t *testing.T, s *scenario)) {
	t.Helper()
	runScript(t, fleet, &scenario{lost: lost}, crashAt, check)
}

// runScript is runScenario of a given scenario.
func runScript(t *testing.T, fleet *actors.LocalFleet, begin *scenario, crashAt []int, check func(t *testing.T, s *scenario)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // The actor system's dead-letter counter ends by itself.
		s := &scenario{loop: newLoop(t, fleet), name: fmt.Sprint(crashAt), lost: begin.lost, suspends: begin.suspends, runs: begin.runs, landed: map[string]time.Time{}, seen: storage.Start()}
		t.Cleanup(s.late.Wait)
		for _, k := range append(slices.Clone(crashAt), immortal) {
			if !s.live(k) {
				break
			}
		}
		s.late.Wait()
		check(t, s)
	})
}
