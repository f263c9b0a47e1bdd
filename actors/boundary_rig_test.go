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

// story is one submission and the processes that work on it, one after the other, each
// until a boundary where it dies. A boundary is where an effect begins or ends: a
// request to the bucket is sent, or it has landed and its answer is under way; an
// author's function or a model is called, or has something to say.
type story struct {
	*loop
	name  string // decides what happens to writes whose sender dies
	lost  bool   // none of them lands
	parks bool   // it is the story of a call that waits; see boundary_park_test.go
	runs  bool   // it is the story of a run of a workflow; see boundary_run_test.go
	lives []*life
	late  sync.WaitGroup // requests that outlive their sender

	mu      sync.Mutex
	deeds   []deed
	views   []view
	landed  map[string]time.Time // when each batch was stored, by key
	zombies int                  // batches that were stored after their sender had died
	aliases map[string]string    // of logs, in the order in which they were met: ids are others in every story

	// What over has read, one life after the other.
	seen    storage.Position
	first   conversation.SubmissionID
	settled bool
}

// deed is one call of a function of the author's, or of a model.
type deed struct {
	what string
	call conversation.CallID
	life int
	at   time.Time
}

// view is what a model was shown.
type view struct {
	seen []string
	at   time.Time
}

// life is one process of a story.
type life struct {
	s      *story
	number int
	dies   int // at which boundary, counted from 0; immortal for none
	died   chan struct{}
	node   *actorNode

	mu    sync.Mutex
	dead  bool
	trace []string // the boundaries passed
	times map[string]int
}

const immortal = -1

// memberName fits the names that [actors.LocalFleet] gives.
var memberName = regexp.MustCompile(`local-\d+`)

var errDead = errors.New("the process is dead")

// draw returns a number that depends on its arguments only.
func draw(what ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, what...)
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return x ^ x>>31
}

// passed returns the boundaries that the process has passed.
func (p *life) passed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.trace)
}

// pass gets to a boundary. It takes a moment that nothing else takes, so that the
// boundaries of a story always come in the same order. It is an error if the process
// has died by then or dies there; here says which.
func (p *life) pass(ctx context.Context, name string) (here bool, err error) {
	p.mu.Lock()
	nth := p.times[name]
	p.times[name]++
	p.mu.Unlock()
	time.Sleep(time.Millisecond + time.Duration(draw(name, nth)%uint64(40*time.Millisecond)))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return false, errDead
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	p.trace = append(p.trace, name)
	if len(p.trace)-1 != p.dies {
		return false, nil
	}
	p.dead = true
	close(p.died)
	return true, errDead
}

// at is pass for code that runs in the process: it does not come back if that dies.
func (p *life) at(ctx context.Context, name string) error {
	_, err := p.pass(ctx, name)
	if errors.Is(err, errDead) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// does is at, and notes that a function runs.
func (p *life) does(ctx context.Context, what string, call conversation.CallID) error {
	if err := p.at(ctx, what+" begins"); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.deeds = append(p.s.deeds, deed{what, call, p.number, time.Now()})
	return nil
}

// carry carries a request of the process.
func (p *life) carry(ctx context.Context, c *storagetest.Call) error {
	name := p.s.alias(memberName.ReplaceAllString(c.Method+" "+c.Key, "member"))
	if here, err := p.pass(ctx, "send "+name); err != nil {
		if errors.Is(err, errDead) && !here {
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

// leave decides on a write that was under way when its sender died: it is lost, or
// lands, or lands much later.
func (p *life) leave(ctx context.Context, c *storagetest.Call, name string) {
	fate := draw(p.s.name, p.number, name)
	if c.Method != http.MethodPut && c.Method != http.MethodDelete || p.s.lost || fate%4 == 0 {
		return
	}
	later, err := c.Later()
	if err != nil {
		p.s.tb.Error(err)
		return
	}
	after := time.Duration(0)
	if fate%4 == 1 {
		after = time.Duration(fate>>2%uint64(15*time.Second)) + time.Second
	}
	op := c.Op
	p.s.late.Go(func() {
		time.Sleep(after)
		if p.s.send(context.WithoutCancel(ctx), op, later) == nil && op.Method == http.MethodPut && strings.Contains(name, "/log/") {
			p.s.mu.Lock()
			defer p.s.mu.Unlock()
			p.s.zombies++
		}
	})
}

// send performs a request, and notes when something was stored.
func (s *story) send(ctx context.Context, op storagetest.Op, do func(context.Context) error) error {
	defer s.wake()
	err := do(ctx)
	if err == nil && op.Method == http.MethodPut {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.landed[op.Key] = time.Now()
	}
	return err
}

// live lets a process work until it dies, or until the work is done and all is quiet.
// It reports whether it died.
func (s *story) live(dies int) bool {
	s.tb.Helper()
	p := &life{s: s, number: len(s.lives), dies: dies, died: make(chan struct{}), times: map[string]int{}}
	s.lives = append(s.lives, p)
	done := p.start()
	go p.deliver()
	quiet := make(chan struct{})
	left := make(chan struct{})
	go func() { // What a dying process reads is none of its effects.
		defer close(left)
		for range int(longest / time.Second) {
			if s.over() {
				time.Sleep(20 * time.Second)
				close(quiet)
				return
			}
			select {
			case <-time.After(time.Second):
			case <-p.died:
				return
			}
		}
	}()
	died := false
	select {
	case <-p.died:
		died = true
	case <-quiet:
	case err := <-done:
		s.tb.Fatalf("run ended: %v", err)
	case <-time.After(longest):
		s.tb.Fatalf("life %d settles nothing:\n%s", p.number, s.lines(s.at()))
	}
	if died {
		p.node.die()
	}
	p.mu.Lock()
	p.dies = immortal
	p.mu.Unlock()
	<-left
	synctest.Wait()
	return died
}

// start makes a process that runs.
func (p *life) start() <-chan error {
	p.s.tb.Helper()
	var done <-chan error
	opts := agents(p.agent())
	if p.s.runs {
		opts.Agents = p.workflows()
	}
	p.node, done = p.s.begin(part{opts: opts, cast: p.cast(), windows: window}, storagetest.Through(p.s.store, p.carry))
	return done
}

// deliver repeats the submission until it is accepted, as a client does.
func (p *life) deliver() {
	select {
	case <-p.node.rt.Ready():
	case <-p.died:
		return
	}
	p.s.mu.Lock()
	accepted := slices.ContainsFunc(p.s.deeds, func(d deed) bool { return d.what == "accepted" })
	p.s.mu.Unlock()
	for range 30 {
		if accepted {
			return
		}
		_, err := p.node.rt.Admit(context.Background(), p.s.opening())
		select {
		case <-p.died:
			return
		default:
		}
		if err == nil && p.s.runs {
			err = p.approve()
		}
		if err == nil {
			p.s.mu.Lock()
			p.s.deeds = append(p.s.deeds, deed{what: "accepted", life: p.number, at: time.Now()})
			p.s.mu.Unlock()
			return
		}
		time.Sleep(time.Second)
	}
	p.s.tb.Errorf("life %d accepts nothing", p.number)
}

// fact is a record and when it became durable.
type fact struct {
	record conversation.Record
	at     time.Time
}

// at is where the story happens.
func (s *story) at() conversation.Address {
	if s.runs {
		return conversation.RunAddress(conversation.RunFor("report", "1"))
	}
	return chat("c")
}

// opening is what begins it.
func (s *story) opening() conversation.Admission {
	if s.runs {
		return conversation.RunOf("report", conversation.RunFor("report", "1"), []byte(`{}`))
	}
	return message(chat("c"), "1", "go")
}

// over reports whether its submission is settled. It reads no batch twice.
func (s *story) over() bool {
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

// submission is the first of the log.
func (s *story) submission() conversation.SubmissionID {
	return only[*conversation.SubmissionAdmitted](s.records(s.at()))[0].Submission
}

// logName is what names a log in keys.
var logName = regexp.MustCompile(`([0-9a-f]{2}/|timer/[0-9]/[0-9T]+/)[0-9a-f]{32}`)

// alias names the logs of a key by the order in which they were met.
func (s *story) alias(name string) string {
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

// facts returns the log.
func (s *story) facts() []fact { return s.factsOf(s.at()) }

func (s *story) factsOf(at conversation.Address) []fact {
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
			s.tb.Fatalf("nobody has stored batch %d", b.Seq)
		}
		for _, r := range records {
			out = append(out, fact{r, landed})
		}
	}
	return out
}

// inStory tells a story in a bubble: a process for each boundary where one dies, and a
// last one that does not. A life that ends well before its boundary ends the story. If
// lost is set, no write lands that was under way when its sender died.
func inStory(t *testing.T, fleet *actors.LocalFleet, dies []int, lost bool, check func(t *testing.T, s *story)) {
	t.Helper()
	play(t, fleet, &story{lost: lost}, dies, check)
}

// play is inStory of a story that begins as given.
func play(t *testing.T, fleet *actors.LocalFleet, begin *story, dies []int, check func(t *testing.T, s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // The actor system's count of dead letters ends by itself.
		s := &story{loop: newLoop(t, fleet), name: fmt.Sprint(dies), lost: begin.lost, parks: begin.parks, runs: begin.runs, landed: map[string]time.Time{}, seen: storage.Start()}
		t.Cleanup(s.late.Wait)
		for _, k := range append(slices.Clone(dies), immortal) {
			if !s.live(k) {
				break
			}
		}
		s.late.Wait()
		check(t, s)
	})
}
