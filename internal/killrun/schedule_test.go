package killrun_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	rooms = 8
	// firstBreaking is the first conversation whose model breaks off. There steps may be withdrawn.
	firstBreaking = 6
)

// room returns the id of a conversation. Some ids have a character to escape.
func room(n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("room/%d", n)
	}
	return fmt.Sprintf("room-%d", n)
}

func roomPath(n int) string { return "/agents/worker/" + url.PathEscape(room(n)) }

// moment is the event that a kill waits for.
type moment string

const (
	atDelay   moment = "delay" // Extra after the traffic began
	atStart   moment = "start" // Extra after the process was started
	atReady   moment = "ready" // Extra after it was ready, without requests
	atDrain   moment = "drain" // Extra after the signal to drain
	atPost    moment = "post"  // the n-th message has left a client
	atAck     moment = "ack"   // the n-th 202 was read
	atCall    moment = "call"  // the n-th model call has arrived
	atWord    moment = "word"  // the model has sent its n-th event
	atTool    moment = "tool"  // the n-th tool has begun
	atChunk   moment = "chunk" // readers have received the n-th chunk
	killLimit        = 1500 * time.Millisecond
)

// kill is the time of a kill: a pause after the n-th event of a kind. Without that event it is Limit,
// 0 for killLimit.
type kill struct {
	At    moment
	N     int
	Extra time.Duration
	Limit time.Duration
}

type cycle struct {
	Seed   uint64
	Kill   kill
	Quiet  bool // everything settles, without requests, before the traffic
	Repeat bool // unanswered messages are sent again
	Idle   time.Duration
	Ops    []op
}

type op struct {
	At     time.Duration
	Room   int
	Abort  bool
	Twice  bool // the same message again, once it was answered
	Signal bool
	Image  int // size of an attachment, 0 for none
	Steps  []step
}

// step is one model call of a turn.
type step struct {
	Fault     string
	Reasoning int
	Words     int
	Pace      time.Duration
	Tools     []tool
}

type tool struct {
	Name string
	Ms   int
}

func newCycle(seed uint64) cycle {
	r := rand.New(rand.NewPCG(seed, 0x6b696c6c))
	c := cycle{
		Seed: seed, Kill: newKill(r), Quiet: r.IntN(5) == 0, Repeat: r.IntN(4) > 0,
		Idle: []time.Duration{100, 300, 5000}[r.IntN(3)] * time.Millisecond,
	}
	convs := r.Perm(rooms)[:2+r.IntN(4)]
	for _, n := range convs {
		for range 1 + r.IntN(3) {
			c.Ops = append(c.Ops, newOp(r, n))
		}
		if r.IntN(6) == 0 {
			c.Ops = append(c.Ops, op{At: milliseconds(r, 100, 700), Room: n, Abort: true})
		}
	}
	slices.SortStableFunc(c.Ops, func(a, b op) int { return cmp.Compare(a.At, b.At) })
	return c
}

func newKill(r *rand.Rand) kill {
	k := kill{Extra: milliseconds(r, 0, 15)}
	if r.IntN(2) == 0 {
		k.Extra = 0
	}
	switch n := r.IntN(40); {
	case n < 6:
		k = kill{At: atDelay, Extra: milliseconds(r, 0, 900)}
	case n < 9:
		k = kill{At: atStart, Extra: milliseconds(r, 0, 250)}
	case n < 12:
		k = kill{At: atReady, Extra: milliseconds(r, 0, 60)}
	case n < 15:
		k = kill{At: atDrain, Extra: milliseconds(r, 0, 60)}
	case n < 20:
		k.At, k.N, k.Extra = atPost, 1+r.IntN(7), time.Duration(r.IntN(5000))*time.Microsecond
	case n < 23:
		k.At, k.N = atAck, 1+r.IntN(7)
	case n < 26:
		k.At, k.N = atCall, 1+r.IntN(10)
	case n < 31:
		k.At, k.N = atWord, 1+r.IntN(250)
	case n < 36:
		k.At, k.N = atTool, 1+r.IntN(6)
	default:
		k.At, k.N = atChunk, 1+r.IntN(200)
	}
	return k
}

func newOp(r *rand.Rand, n int) op {
	o := op{At: milliseconds(r, 0, 500), Room: n, Twice: r.IntN(6) == 0, Signal: r.IntN(12) == 0}
	if !o.Signal {
		switch r.IntN(40) {
		case 0:
			o.Image = 300 << 10 // large enough for a separate file in the folder
		case 1, 2, 3:
			o.Image = 700
		}
	}
	for range r.IntN(4) {
		o.Steps = append(o.Steps, newStep(r, n, true))
	}
	o.Steps = append(o.Steps, newStep(r, n, false))
	return o
}

func newStep(r *rand.Rand, n int, tools bool) step {
	s := step{Words: 1 + r.IntN(40), Pace: milliseconds(r, 1, 7)}
	if r.IntN(4) == 0 {
		s.Reasoning = 1 + r.IntN(8)
	}
	if n >= firstBreaking && r.IntN(2) == 0 {
		s.Fault = []string{"truncate=3 times=1", "fail=2 times=1", "status=429 times=1", "status=503 times=1"}[r.IntN(4)]
	}
	if !tools {
		return s
	}
	if r.IntN(3) == 0 {
		s.Words = 0
	}
	for range 1 + r.IntN(3) {
		t := tool{Name: []string{"quick", "slow", "slow", "note", "wrong"}[r.IntN(5)]}
		if t.Name == "slow" || t.Name == "note" {
			t.Ms = r.IntN(150)
		}
		s.Tools = append(s.Tools, t)
	}
	return s
}

func milliseconds(r *rand.Rand, low, high int) time.Duration {
	return time.Duration(low+r.IntN(high-low+1)) * time.Millisecond
}

func (o op) script() string {
	var words []string
	for i, s := range o.Steps {
		if i > 0 {
			words = append(words, "then")
		}
		words = append(words, "pace="+s.Pace.String())
		if s.Fault != "" {
			words = append(words, s.Fault)
		}
		if s.Reasoning > 0 {
			words = append(words, fmt.Sprintf("reasoning=%d", s.Reasoning))
		}
		if s.Words > 0 {
			words = append(words, fmt.Sprintf("tokens=%d", s.Words))
		}
		for _, t := range s.Tools {
			words = append(words, fmt.Sprintf(`tool=%s {"ms":%d}`, t.Name, t.Ms))
		}
	}
	return strings.Join(words, " ")
}

// texts returns the text parts of a response without interruption.
func (o op) texts() []string {
	var texts []string
	for _, s := range o.Steps {
		var words []string
		for n := range s.Words {
			words = append(words, fmt.Sprintf("w%d", n+1))
		}
		if len(words) > 0 {
			texts = append(texts, strings.Join(words, " "))
		}
	}
	return texts
}

// tools returns the number of calls of each tool in such a response.
func (o op) tools() map[string]int {
	count := map[string]int{}
	for _, s := range o.Steps {
		for _, t := range s.Tools {
			count[t.Name]++
		}
	}
	return count
}

func (c cycle) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: kill at %s %d + %v; quiet %t, repeat %t, idle after %v\n", c.Seed, c.Kill.At, c.Kill.N, c.Kill.Extra, c.Quiet, c.Repeat, c.Idle)
	for _, o := range c.Ops {
		fmt.Fprintf(&b, "  %6v %s ", o.At, room(o.Room))
		switch {
		case o.Abort:
			b.WriteString("abort\n")
		default:
			fmt.Fprintf(&b, "post twice %t, signal %t, image %d: %s\n", o.Twice, o.Signal, o.Image, o.script())
		}
	}
	return b.String()
}
