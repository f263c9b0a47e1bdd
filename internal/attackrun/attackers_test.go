package attackrun_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// The attackers are a separate process. In production attackers and their models run on other
// machines. Here they share the nodes' machine, and in a run that checks latencies they have the
// lowest priority.

// ordersEnv holds the orders of the attacking process.
const ordersEnv = "PARLEY_ATTACKRUN_ORDERS"

// orders is the configuration of the attacking process.
type orders struct {
	Nodes  []string // host:port of each
	Models string   // host:port of the endless models that it serves
	Kinds  []string
	Seed   uint64
	Rest   time.Duration // mean pause between rounds of a kind
	Size   int           // size of a crowd
	Long   bool
}

// sight is an output line: a hit, or an unexpected answer.
type sight struct{ Hit, Unexpected string }

// tally counts hits.
type tally struct {
	mu         sync.Mutex
	hits       map[string]int
	unexpected map[string]int
	out        *json.Encoder
}

func newTally(out io.Writer) tally {
	return tally{hits: map[string]int{}, unexpected: map[string]int{}, out: json.NewEncoder(out)}
}

func (t *tally) note(s sight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Hit != "" {
		t.hits[s.Hit]++
	}
	if s.Unexpected != "" {
		t.unexpected[s.Unexpected]++
	}
	_ = t.out.Encode(s) // The reader is gone if the run is over.
}

// missing returns the kinds without a hit.
func (t *tally) missing(of []kind) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range of {
		for _, h := range k.hits {
			if t.hits[h] == 0 {
				names = append(names, h)
			}
		}
	}
	return names
}

func only(names []string) []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !slices.Contains(names, k.name) })
}

func TestMain(m *testing.M) {
	text, attacks := os.LookupEnv(ordersEnv)
	if !attacks {
		os.Exit(m.Run())
	}
	if err := attackAs(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// attackAs carries out orders until the input ends, which ends with the test.
func attackAs(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Models)
	if err != nil {
		return err
	}
	models := &http.Server{Handler: endlessModels()}
	var serving sync.WaitGroup
	serving.Go(func() { _ = models.Serve(l) }) // It ends only by Close.
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	a := &attack{
		orders: o, tally: newTally(os.Stdout),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: liveness},
	}
	a.run(ctx)
	<-ctx.Done() // The models serve until then.
	err = models.Close()
	serving.Wait()
	return err
}

// attackers is the attacking process in the test.
type attackers struct {
	tally
	orders orders
}

func newAttackers(s *site, p plan) *attackers {
	o := orders{Models: s.models, Seed: p.seed, Rest: p.rest, Size: p.size, Long: *longFlag}
	for _, n := range s.nodes {
		o.Nodes = append(o.Nodes, n.HTTP)
	}
	for _, k := range p.kinds {
		o.Kinds = append(o.Kinds, k.name)
	}
	return &attackers{tally: newTally(io.Discard), orders: o}
}

// run attacks until ctx ends, and waits for the process.
func (a *attackers) run(ctx context.Context) (err error) {
	text, err := json.Marshal(a.orders)
	if err != nil {
		return err
	}
	args := []string{os.Args[0]}
	if a.orders.Long {
		args = append([]string{"nice", "-n", "10"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), ordersEnv+"="+string(text)), os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	seen, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { input.Close() })
	defer stop()
	for lines := bufio.NewScanner(seen); lines.Scan(); {
		var s sight
		if bad := json.Unmarshal(lines.Bytes(), &s); bad != nil {
			err = errors.Join(err, fmt.Errorf("read %q: %w", lines.Bytes(), bad))
			continue
		}
		a.note(s)
	}
	err = errors.Join(err, cmd.Wait())
	if err == nil && ctx.Err() == nil {
		err = errors.New("process ended by itself")
	}
	return err
}
