package clusterrun_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
)

// nextNoted is a record type that must be understood and that only the newer version knows.
const nextNoted = "next_noted"

// Numbers of messages: any number whileLeaving may be noted, all numbers onceAlone must be.
const (
	whileLeaving = 3
	onceAlone    = 4
)

// versions is a cluster of two nodes, of which the first runs the next version. Its program checks the
// data at the end.
type versions struct {
	*run
	newer, older *node
	member       string // id of the older node in the membership table
	logs         *storage.Logs
	views        map[string]*logView
	byHand       map[conversation.SubmissionID]bool // noted by this test
}

// Two versions run in one cluster. The newer one writes nothing that the older one cannot read. A
// record of the newer version from elsewhere is refused by the older one and served once that has
// left.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	now, next := program(t), proc.Program(t, "cmd/parley", sample.Raced(), "nextversion")
	c := newCluster(t, clusterOptions{nodes: 2, sound: true, program: func(number int) string { return []string{next, now}[number] }})
	v := &versions{
		run: &run{
			cluster: c, t: t, plan: plan{nodes: 2}, client: &client{c}, watcher: &watcher{bucket: c.bucket},
			sights: map[string][]noderun.Sight{}, counts: schedule.Counts{}, began: time.Now(),
		},
		newer: c.nodes[0], older: c.nodes[1], logs: storage.NewLogs(c.bucket, nil),
		views: map[string]*logView{}, byHand: map[conversation.SubmissionID]bool{},
	}
	c.logf = v.logf
	v.load = newLoad(v.client, 0, 0, 0)
	v.playBy(v.steps)
}

// steps runs the test. It reports whether all steps completed.
func (v *versions) steps(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*liveness)
	defer cancel()
	reads, endReads := context.WithCancel(ctx)
	v.load.read = reads
	defer v.load.reading.Wait()
	defer endReads()
	// The newer node joins the older one. In the other order it would not know of the older one for a
	// moment, and could have noted something before.
	v.older.Want(true)
	if !v.older.Await(ctx) || !v.Start(ctx) || !v.sideBySide(ctx) {
		return false
	}
	idle, busy := v.pick(ctx, "idle"), v.pick(ctx, "busy")
	if idle == nil || busy == nil || !v.skew(ctx) || !v.writeByHand(ctx, idle, busy) {
		return false
	}
	refused := v.refuse(ctx, idle)
	if refused == nil || !v.olderLeaves(ctx, busy) || !v.served(ctx, idle, refused) || !v.afterwards(ctx) {
		return false
	}
	for _, k := range v.load.convs {
		if !v.fresh(ctx, v.newer, k) {
			return false
		}
		for _, rd := range k.readers {
			for rd.At() < v.sights[k.id][0].To {
				if noderun.Pause(ctx, 5*time.Millisecond) != nil || v.Any() {
					return false
				}
			}
		}
	}
	endReads()
	v.load.reading.Wait()
	return v.stop(ctx)
}

// until waits for a required event.
func (v *versions) until(ctx context.Context, desc string, done func() (bool, error)) bool {
	for began := time.Now(); ; {
		ok, err := done()
		if ok && err == nil {
			return true
		}
		if err != nil || v.Any() || time.Since(began) > liveness || noderun.Pause(ctx, 50*time.Millisecond) != nil {
			v.Fail("%s does not come: %v", desc, err)
			return false
		}
	}
}

func (v *versions) conv(name string, alone bool) *conv {
	k := &conv{id: "v-" + name, seed: uint64(len(v.load.convs)), alone: alone}
	v.load.convs = append(v.load.convs, k)
	return k
}

// everywhere posts once more in every conversation that has followers, at some of the nodes.
func (v *versions) everywhere(ctx context.Context, n int, nodes ...*node) bool {
	for _, k := range v.load.convs {
		if k.alone {
			continue
		}
		if !v.load.send(ctx, k, k.dice(uint64(n)), nodes, n, "pace=5ms tokens=8") {
			return false
		}
	}
	return true
}

// settle waits until all acknowledged messages are settled. It reads the bucket only.
func (v *versions) settle(ctx context.Context) bool {
	return v.until(ctx, "the settlement of all messages", func() (bool, error) {
		unsettled, err := v.load.settled(ctx, v.logs, v.views)
		return len(unsettled) == 0, err
	})
}

// owner returns the node that has the conversation in its pending-work journal, nil for none.
func (v *versions) owner(ctx context.Context, k *conv) (*node, error) {
	e, _, err := storage.NewestEpoch(ctx, v.cluster.bucket, 0)
	if err != nil {
		return nil, err
	}
	refs, err := storage.Journals(ctx, v.cluster.bucket)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		j, err := storage.ReadJournal(ctx, v.cluster.bucket, ref.Member, ref.N)
		if errors.Is(err, storage.ErrNotFound) {
			return v.owner(ctx, k) // A newer journal exists.
		}
		if err != nil {
			return nil, err
		}
		mine := func(entry storage.JournalEntry) bool { return entry.Conv == newLogView(k.id).Key }
		if !slices.ContainsFunc(j.Entries, mine) {
			continue
		}
		for _, m := range e.Members {
			for _, n := range v.nodes {
				if m.ID == ref.Member && m.Address == n.HTTP {
					return n, nil
				}
			}
		}
	}
	return nil, nil
}

// begin starts a conversation whose first response blocks at a gate, and returns its owner.
func (v *versions) begin(ctx context.Context, k *conv, gate string) (owner *node) {
	if !v.load.send(ctx, k, k.dice(0), v.nodes, 0, "hold="+gate+" tokens=8") {
		return nil
	}
	v.until(ctx, "the owner of "+k.id, func() (bool, error) {
		var err error
		owner, err = v.owner(ctx, k)
		return owner != nil, err
	})
	return owner
}

// sideBySide makes both nodes own conversations, and admits at both.
func (v *versions) sideBySide(ctx context.Context) bool {
	owned := map[*node]int{}
	for i := 0; owned[v.older] < 2 || owned[v.newer] < 2; i++ {
		owner := v.begin(ctx, v.conv(fmt.Sprint(i), false), "owners")
		if owner == nil {
			return false
		}
		owned[owner]++
	}
	v.model.Release("owners")
	v.logf("the older node owns %d conversations, the newer one %d", owned[v.older], owned[v.newer])
	return v.unnoted(ctx) && v.everywhere(ctx, 1, v.older) && v.everywhere(ctx, 2, v.newer) && v.settle(ctx) && v.unnoted(ctx)
}

// unnoted reads all logs and fails if the newer version has noted anything while the older one is a
// member.
func (v *versions) unnoted(ctx context.Context) bool {
	noted := ""
	for _, k := range v.load.convs {
		s := newLogView(k.id)
		if err := s.Read(ctx, v.logs); err != nil {
			v.Fail("%s: read the log: %v", k.id, err)
			return false
		}
		for id := range s.noted {
			if !v.byHand[id] {
				noted = k.id
			}
		}
	}
	e, _, err := storage.NewestEpoch(ctx, v.cluster.bucket, 0)
	if err != nil {
		v.Fail("read the members: %v", err)
		return false
	}
	for _, m := range e.Members {
		if m.Address == v.older.HTTP {
			v.member = m.ID
			if noted != "" {
				v.Fail("the log of %s has a %s while %v is a member", noted, nextNoted, v.older)
			}
		}
	}
	return !v.Any()
}

// pick returns a conversation of the older node without followers. A busy one blocks at the gate of
// that name.
func (v *versions) pick(ctx context.Context, name string) *conv {
	for i := 0; ; i++ {
		k := v.conv(fmt.Sprint(name, i), true)
		owner := v.begin(ctx, k, fmt.Sprint(name, i))
		if owner == nil {
			return nil
		}
		if owner == v.older && name == "busy" {
			return k
		}
		v.model.Release(fmt.Sprint(name, i))
		if owner == v.older {
			idle := func() (bool, error) {
				owner, err := v.owner(ctx, k)
				return owner == nil, err
			}
			if !v.until(ctx, "the end of "+k.id, idle) {
				return nil
			}
			return k
		}
	}
}

// skew checks the program's output about the two versions.
func (v *versions) skew(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, v.older.Program, "cluster", "status", "--config", v.older.Config)
	cmd.Env = append(os.Environ(), v.older.Env...)
	out, err := cmd.Output()
	if err != nil {
		v.Fail("parley cluster status: %v\n%s", err, out)
		return false
	}
	m := regexp.MustCompile(`(?m)^Version skew: (\w+) cannot read ` + nextNoted + ` records; no node writes them if they are mandatory\.$`).FindSubmatch(out)
	if m == nil || !strings.HasPrefix(v.member, string(m[1])) {
		v.Fail("parley cluster status lacks that %s cannot read %s:\n%s", v.member, nextNoted, out)
		return false
	}
	return true
}

// append writes a line that the older node cannot read at the end of a log, as a node does that takes
// the conversation over.
func (v *versions) append(ctx context.Context, k *conv) bool {
	id := conversation.SubmissionID("sub_byhand_" + k.id)
	v.byHand[id] = true
	line := fmt.Appendf(nil, `{"type":%q,"must":true,"submission":%q}`+"\n", nextNoted, id)
	tries := 0
	return v.until(ctx, "a batch of another writer", func() (bool, error) {
		tries++
		s := newLogView(k.id)
		if err := s.Read(ctx, v.logs); err != nil {
			return false, err
		}
		w := v.logs.Writer(s.Key, storage.Nonce(fmt.Sprintf("byhand-%s-%d", k.id, tries)), s.After, int64(s.Claims)+1)
		_, err := w.Append(ctx, line, conversation.TimeOf(time.Now()))
		if errors.Is(err, storage.ErrFenced) {
			return false, nil // Its owner was faster.
		}
		return err == nil, err
	})
}

// writeByHand writes to an idle conversation and to a busy one, and then releases the response of the
// busy one.
func (v *versions) writeByHand(ctx context.Context, idle, busy *conv) bool {
	if !v.append(ctx, idle) || !v.append(ctx, busy) {
		return false
	}
	v.model.Release(strings.TrimPrefix(busy.id, "v-"))
	return v.until(ctx, "the end of the older node's writer", func() (bool, error) {
		return v.refusals(busy) > 0, nil
	})
}

// refusals counts the errors in the log of the older node that name the unknown type and a conversation.
func (v *versions) refusals(k *conv) (n int) {
	p := v.older.Running()
	if p == nil {
		return 0
	}
	for line := range bytes.Lines(p.Printed()) {
		if bytes.Contains(line, []byte("level=ERROR")) && bytes.Contains(line, []byte(nextNoted)) && bytes.Contains(line, []byte(newLogView(k.id).Key)) {
			n++
		}
	}
	return n
}

// answer is a node's answer to a request.
type answer struct {
	Status     int
	Code       string
	RetryAfter bool
}

// refusal is the answer of the older node to a request it cannot serve.
var refusal = answer{http.StatusServiceUnavailable, string(conversation.CodeUnavailable), true}

// unknownOutcome is the answer to an admission in flight when its owner stepped down.
var unknownOutcome = answer{http.StatusServiceUnavailable, string(conversation.CodeAdmissionUnknown), true}

func (v *versions) ask(ctx context.Context, method, url string, body []byte) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, liveness/4)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		v.Fail("%v", err)
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.client.Client.HTTP.Do(req)
	if err != nil {
		v.Fail("%v", err)
		return a
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fail("%v", err)
	}
	var failure struct{ Error struct{ Type string } }
	_ = json.Unmarshal(data, &failure) // An answer that is no error has no type.
	return answer{resp.StatusCode, failure.Error.Type, resp.Header.Get("Retry-After") != ""}
}

func (v *versions) objects(ctx context.Context, k *conv) map[string]string {
	out := map[string]string{}
	key := newLogView(k.id).Key
	page, err := v.cluster.bucket.List(ctx, storage.ListQuery{Prefix: string(key[:2]) + "/" + string(key) + "/"})
	if err != nil || page.More {
		v.Fail("list the objects of %s: more %t, %v", k.id, page.More, err)
	}
	for _, o := range page.Keys {
		data, err := v.cluster.bucket.Get(ctx, o.Key)
		if err != nil {
			v.Fail("%s: %v", k.id, err)
		}
		out[o.Key] = string(data)
	}
	return out
}

// refuse sends requests that the older node cannot serve, and returns the message that was not
// admitted.
func (v *versions) refuse(ctx context.Context, k *conv) *sent {
	m := newSent(k.id+".refused", "tokens=8")
	before := v.objects(ctx, k)
	for i := range 6 {
		n := v.nodes[i%2]
		// The current writer of the older node takes the first one, and is fenced.
		if got := v.ask(ctx, http.MethodPost, n.url(k.id), m.Body); got != refusal && (i > 0 || got != unknownOutcome) {
			v.Fail("admit to %s at %v: got %+v, want %+v", k.id, n, got, refusal)
		}
	}
	if got := v.refusals(k); got != 1 {
		v.Fail("%d errors in the log of %v name the type it does not know, after 6 refusals; want 1", got, v.older)
	}
	for _, query := range []string{"", "?view=updates&offset=-1", "?view=updates&offset=" + conversation.Offset(0).String(), "?view=updates&live=sse&offset=-1"} {
		if got := v.ask(ctx, http.MethodGet, v.older.url(k.id)+query, nil); got != refusal {
			v.Fail("read %s%s at the older node: got %+v, want %+v", k.id, query, got, refusal)
		}
	}
	if got := v.refusals(k); got != 2 {
		v.Fail("%d errors in the log of %v name the type it does not know, after 4 reads more; want 2", got, v.older)
	}
	l, err := v.client.snapshot(ctx, v.newer, k.id)
	s := newLogView(k.id)
	if err == nil {
		err = s.Read(ctx, v.logs)
	}
	if err != nil || int64(l.Next) != s.After.Seq {
		v.Fail("read %s at the newer node: got head %s, want %d: %v", k.id, l.Next, s.After.Seq, err)
	}
	if diff := cmp.Diff(before, v.objects(ctx, k)); diff != "" {
		v.Fail("objects of %s have changed (-before +after):\n%s", k.id, diff)
	}
	if v.Any() {
		return nil
	}
	v.logf("the older node refused %s", k.id)
	return m
}

// olderLeaves shuts down the older node while clients talk to the newer one, which then takes over the
// pending work.
func (v *versions) olderLeaves(ctx context.Context, busy *conv) bool {
	if !v.unnoted(ctx) {
		return false
	}
	if got := v.refusals(busy); got != 1 {
		v.Fail("%d errors in the log of %v name the type it does not know, for sweeps; want 1", got, v.older)
	}
	var leaving sync.WaitGroup
	leaving.Go(v.older.Leave)
	leaving.Go(func() { v.everywhere(ctx, whileLeaving, v.newer) })
	for p := v.older.Running(); p != nil && v.unnoted(ctx); p = v.older.Running() {
		_ = noderun.Pause(ctx, 10*time.Millisecond) // The loop checks again in any case.
	}
	leaving.Wait()
	v.logf("the older node has left")
	alone := func() (bool, error) {
		out, err := v.metrics(ctx)
		return bytes.Contains(out, []byte("\nparley_members 1\n")), err
	}
	if v.Any() || !v.until(ctx, "the newer node's view without the older one", alone) || !v.settle(ctx) {
		return false
	}
	v.logf("all settled without a request, also in %s", busy.id)
	return v.until(ctx, "the end of the older node's journal", func() (bool, error) {
		refs, err := storage.Journals(ctx, v.cluster.bucket)
		return !slices.ContainsFunc(refs, func(r storage.JournalRef) bool { return r.Member == v.member }), err
	})
}

func (v *versions) metrics(ctx context.Context) ([]byte, error) {
	out, _, err := v.client.Client.Do(ctx, http.MethodGet, "http://"+v.newer.Admin+"/metrics", nil)
	return out, err
}

// served sends the refused message again.
func (v *versions) served(ctx context.Context, k *conv, m *sent) bool {
	if err := v.client.sendTo(ctx, k.dice(5), []*node{v.newer}, k.id, m); err != nil || m.Receipt.Deduplicated {
		v.Fail("send refused message again: got %+v, %v", m.Receipt, err)
		return false
	}
	k.sent = append(k.sent, m)
	return true
}

// afterwards posts once more everywhere, and checks that from then on, and not before, every admission
// is noted.
func (v *versions) afterwards(ctx context.Context) bool {
	if !v.everywhere(ctx, onceAlone, v.newer) || !v.settle(ctx) {
		return false
	}
	for _, k := range v.load.convs {
		s := v.views[k.id]
		for _, a := range s.Order {
			alone := strings.HasSuffix(a.Key, fmt.Sprint(".", onceAlone)) || strings.HasSuffix(a.Key, ".refused")
			if got := s.noted[a.Submission]; got != alone && !strings.HasSuffix(a.Key, fmt.Sprint(".", whileLeaving)) {
				v.Fail("message %s: noted %t, sent when the newer node was alone %t", a.Key, got, alone)
			}
		}
	}
	return !v.Any()
}
