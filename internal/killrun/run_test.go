package killrun_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/schedule"
)

// liveness bounds a wait for a required event. Only failing runs reach it.
const liveness = 2 * time.Minute

// run is a series of cycles over one place.
type run struct {
	noderun.Notes
	t       *testing.T
	cycles  []cycle
	place   noderun.Place
	dir     string // for the ledger and the logs
	vendor  string
	events  *counters
	reaper  *proc.Reaper
	client  *client
	site    *site
	answers *s3server.Answers // proxy before the store, nil for none
	after   func()            // called after the first kill, may be nil

	readers   sync.WaitGroup
	readersOf [rooms][]*reader
	endReads  context.CancelFunc
	readCtx   context.Context

	mu      sync.Mutex
	posts   [rooms][]*post
	aborts  [rooms]aborts
	report  report
	servers int
}

type aborts struct{ Asked, True int }

// report holds the counts of a run.
type report struct {
	kills       schedule.Counts
	late        int // kills whose event did not occur
	settledIn   time.Duration
	interrupted schedule.Counts
	counts      schedule.Counts
}

func newReport() report {
	return report{kills: schedule.Counts{}, interrupted: schedule.Counts{}, counts: schedule.Counts{}}
}

func newRun(t *testing.T, p noderun.Place, cycles []cycle) *run {
	r := &run{
		t: t, cycles: cycles, place: p, dir: t.TempDir(), events: newCounters(), site: newSite(),
		report: newReport(),
	}
	r.vendor = startVendor(t, r.events)
	r.reaper = proc.ReaperOf(t)
	r.client = newClient(r.events)
	r.readCtx, r.endReads = context.WithCancel(context.Background())
	return r
}

// perform runs the cycles and returns the evidence.
func (r *run) perform() *evidence {
	defer func() {
		r.endReads()
		r.readers.Wait()
		r.client.Close()
	}()
	for i, c := range r.cycles {
		if r.Any() {
			return nil
		}
		if r.cycle(i, c); i == 0 && r.after != nil {
			r.after()
		}
	}
	if r.Any() {
		return nil
	}
	return r.rest()
}

func (r *run) start(idle time.Duration) *server {
	r.servers++
	s, err := startServer(r.reaper, serverConfig{
		Place: r.place, Vendor: r.vendor, Ledger: filepath.Join(r.dir, "ledger"), Idle: idle,
	}, filepath.Join(r.dir, fmt.Sprintf("server-%d.log", r.servers)))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// again replaces a server whose start failed.
func (r *run) again(s *server, idle time.Duration) *server {
	r.end(s)
	r.answers.Replace(0)
	next := r.start(idle)
	next.excused = true
	return next
}

// end kills a server, once, and checks its output.
func (r *run) end(s *server) {
	if s.over {
		return
	}
	s.over = true
	s.Kill()
	r.answers.Pass()
	r.site.set("")
	for _, flaw := range s.flaws() {
		r.Fail("%s", flaw)
	}
}

// await returns the URL of a server, "" if the server has ended.
func (r *run) await(s *server) string {
	ctx, cancel := context.WithTimeout(r.readCtx, liveness)
	defer cancel()
	base, err := s.Await(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Quit()
		r.Fail("a server is not ready after %v", liveness)
	}
	return base
}

// cycle runs one server from its start to its kill.
func (r *run) cycle(i int, c cycle) {
	excused := r.answers != nil && startsUnderAnswers(i)
	if excused {
		r.answers.Replace(0)
	}
	s := r.start(c.Idle)
	s.excused = excused
	how := schedule.Event(c.Kill.At)
	defer func() {
		r.end(s)
		r.report.kills[how]++
	}()
	if c.Kill.At == atStart {
		select {
		case <-time.After(c.Kill.Extra):
		case <-s.Ready():
			how = "start, but ready"
		}
		return
	}
	base := r.await(s)
	for began := time.Now(); base == "" && s.gaveUp() && time.Since(began) < liveness; base = r.await(s) {
		r.report.counts["starts that gave up"]++
		s = r.again(s, c.Idle)
	}
	if base == "" {
		return
	}
	if excused {
		r.report.counts["starts under replaced answers"]++
	}
	if c.Kill.At == atReady {
		_ = noderun.Pause(r.readCtx, c.Kill.Extra)
		return
	}
	r.answers.Replace(0)
	r.kept(base)
	r.site.set(base)
	if c.Quiet && !r.settle(base) {
		s.Quit()
		return
	}
	if i == 0 {
		r.answers.Replace(allAnswers)
	}
	due := r.events.after(c.Kill.At, c.Kill.N)
	ctx, cancel := context.WithCancel(context.Background())
	var traffic sync.WaitGroup
	defer func() {
		r.end(s)
		cancel()
		traffic.Wait()
	}()
	for n := range rooms {
		traffic.Go(func() { r.drive(ctx, base, n, i, c) })
	}
	r.wait(s, c.Kill, due)
}

func (r *run) wait(s *server, k kill, due <-chan struct{}) {
	limit := time.NewTimer(cmp.Or(k.Limit, killLimit))
	defer limit.Stop()
	switch k.At {
	case atDelay:
	case atDrain:
		_ = noderun.Pause(r.readCtx, killLimit/5)
		s.Signal(syscall.SIGTERM)
	default:
		select {
		case <-due:
		case <-s.Ended():
		case <-limit.C:
			r.report.late++
		}
	}
	_ = noderun.Pause(r.readCtx, k.Extra)
}

// drive sends the operations of a cycle for one conversation in order, while the server runs.
func (r *run) drive(ctx context.Context, base string, n, number int, c cycle) {
	began := time.Now()
	if c.Repeat {
		r.mu.Lock()
		old := slices.Clone(r.posts[n])
		r.mu.Unlock()
		for _, p := range old {
			if p.Receipt == nil && !r.send(ctx, base, p) {
				return
			}
		}
	}
	for i, o := range c.Ops {
		if o.Room != n {
			continue
		}
		if noderun.Pause(ctx, o.At-time.Since(began)) != nil {
			return
		}
		if o.Abort {
			r.abort(ctx, base, n)
			continue
		}
		p := newPost(fmt.Sprintf("%d.%d.%d", c.Seed, number, i), o)
		r.mu.Lock()
		r.posts[n] = append(r.posts[n], p)
		r.mu.Unlock()
		if !r.send(ctx, base, p) || o.Twice && !r.send(ctx, base, p) {
			return
		}
	}
}

// send sends a message and reports whether it was answered.
func (r *run) send(ctx context.Context, base string, p *post) bool {
	err := r.client.send(ctx, base, p)
	if noderun.Broken(err) {
		r.Fail("message %s to %s: %v", p.Key, room(p.Op.Room), err)
	}
	if err != nil {
		return false
	}
	r.read(p.Op.Room, p.Receipt.Offset)
	return true
}

func (r *run) abort(ctx context.Context, base string, n int) {
	r.mu.Lock()
	r.aborts[n].Asked++
	r.mu.Unlock()
	aborted, err := r.client.abort(ctx, base, n)
	if noderun.Broken(err) {
		r.Fail("abort of %s: %v", room(n), err)
	}
	if aborted {
		r.mu.Lock()
		r.aborts[n].True++
		r.mu.Unlock()
	}
}

// read starts the readers of a conversation that was just created.
func (r *run) read(n int, at conversation.Offset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.readersOf[n]) > 0 {
		return
	}
	for i, from := range []conversation.Offset{conversation.Start, at} {
		rd := newReader(r, n, (i+n/2)%2 == 1, from)
		r.readersOf[n] = append(r.readersOf[n], rd)
		r.readers.Go(func() { rd.follow(r.readCtx) })
	}
}

// kept checks that a new server shows everything readers have seen of the old ones.
func (r *run) kept(base string) {
	ctx, cancel := context.WithTimeout(r.readCtx, liveness)
	defer cancel()
	for n := range firstBreaking {
		for _, rd := range r.readersOf[n] {
			before := rd.view()
			snap, _, err := r.client.history(ctx, base, n)
			if err != nil || snap == nil {
				r.Fail("read %s after a restart: %v, snapshot %v", room(n), err, snap)
				return
			}
			now := observedIn(snap)
			if lack := now.lacks(before); lack != "" {
				r.Fail("%s after a restart: %s", room(n), lack)
			}
		}
	}
}

// settle waits until all acknowledged messages are settled. It only reads.
func (r *run) settle(base string) bool {
	ctx, cancel := context.WithTimeout(r.readCtx, liveness)
	defer cancel()
	for n := range rooms {
		for {
			pending, _, err := r.unsettled(ctx, base, n)
			if err == nil && len(pending) == 0 {
				break
			}
			if noderun.Broken(err) || noderun.Pause(ctx, 10*time.Millisecond) != nil {
				r.Fail("%s does not settle: unsettled %v, %v", room(n), pending, err)
				return false
			}
		}
	}
	return true
}

// unsettled returns the acknowledged submissions of a conversation without a settlement. A message without
// a 202 may be in the log, because the server crashed before it had listed the conversation as pending
// work. It is worked on after the next request to the conversation, at the latest when the message is
// sent again.
func (r *run) unsettled(ctx context.Context, base string, n int) (pending, unknown []conversation.SubmissionID, err error) {
	snap, _, err := r.client.history(ctx, base, n)
	if err != nil {
		return nil, nil, err
	}
	acked := map[conversation.SubmissionID]bool{}
	for _, p := range r.posts[n] {
		if p.Receipt != nil {
			acked[p.Receipt.SubmissionID] = true
			pending = append(pending, p.Receipt.SubmissionID)
		}
	}
	if snap == nil {
		if len(pending) > 0 {
			return nil, nil, noderun.Breach("an admitted conversation does not exist")
		}
		return nil, nil, nil
	}
	for _, m := range snap.Messages {
		if m.SubmissionID == "" || m.Role == conversation.RoleAssistant || m.Purpose == conversation.PurposeAdvisory {
			continue
		}
		if !acked[m.SubmissionID] {
			unknown = append(unknown, m.SubmissionID)
		}
		delete(acked, m.SubmissionID)
	}
	if len(acked) > 0 {
		return nil, nil, noderun.Breach("acknowledged messages are not shown: %v", acked)
	}
	for _, s := range snap.Settlements {
		settled := func(id conversation.SubmissionID) bool { return id == s.SubmissionID }
		pending, unknown = slices.DeleteFunc(pending, settled), slices.DeleteFunc(unknown, settled)
	}
	return pending, unknown, nil
}

// repeat sends all unanswered messages again, and waits for their settlements.
func (r *run) repeat(base string) bool {
	ctx, cancel := context.WithTimeout(r.readCtx, liveness)
	defer cancel()
	for n := range rooms {
		_, unknown, err := r.unsettled(ctx, base, n)
		if err != nil {
			r.Fail("read %s: %v", room(n), err)
			return false
		}
		r.report.counts["in the log without a receipt, at rest"] += len(unknown)
		for _, p := range r.posts[n] {
			if p.Receipt == nil && !r.send(ctx, base, p) {
				r.Fail("message %s to %s is not answered by an idle cluster", p.Key, room(n))
				return false
			}
		}
	}
	return r.settle(base)
}

// rest starts the last server, waits until everything is settled, and returns the evidence.
func (r *run) rest() *evidence {
	s := r.start(time.Minute)
	defer r.end(s)
	base := r.await(s)
	if base == "" {
		return nil
	}
	began := time.Now()
	r.kept(base)
	r.site.set(base)
	if !r.settle(base) {
		s.Quit()
		return nil
	}
	r.report.settledIn = time.Since(began)
	if !r.repeat(base) {
		s.Quit()
		return nil
	}
	e := &evidence{place: r.place, ledger: filepath.Join(r.dir, "ledger")}
	ctx, cancel := context.WithTimeout(r.readCtx, liveness)
	defer cancel()
	for n := range rooms {
		drive := convEvidence{posts: r.posts[n], aborts: r.aborts[n]}
		snap, raw, err := r.client.history(ctx, base, n)
		if err != nil {
			r.Fail("read %s: %v", room(n), err)
			return nil
		}
		if snap != nil {
			drive.snapshot, drive.offset = raw, snap.Offset
			r.attachments(ctx, base, n, snap)
		}
		for _, rd := range r.readersOf[n] {
			for rd.At() < drive.offset {
				if err := noderun.Pause(ctx, 5*time.Millisecond); err != nil || r.Any() {
					r.Fail("a reader of %s stays at %s, the snapshot is at %s", room(n), rd.At(), drive.offset)
					return nil
				}
			}
		}
		e.convs = append(e.convs, drive)
	}
	r.report.counts["messages whose answer a kill took"] += int(r.client.cut.Load())
	r.report.counts["such messages found admitted later"] += int(r.client.found.Load())
	r.endReads()
	r.readers.Wait()
	for n, readers := range r.readersOf {
		for i, rd := range readers {
			seen := rd.Sight(fmt.Sprint("reader ", i))
			e.convs[n].reads = append(e.convs[n].reads, seen)
			r.report.counts["chunks seen"] += len(seen.Chunks)
			r.report.counts["reconnects"] += seen.Resumed
			r.report.counts["chunks repeated"] += seen.Repeated
		}
	}
	return e
}

// attachments checks the bytes of acknowledged attachments.
func (r *run) attachments(ctx context.Context, base string, n int, snap *conversation.Snapshot) {
	files := map[conversation.SubmissionID]conversation.AttachmentID{}
	for _, m := range snap.Messages {
		for _, p := range m.Parts {
			if p.Type == conversation.PartTypeFile {
				files[m.SubmissionID] = p.ID
			}
		}
	}
	for _, p := range r.posts[n] {
		if p.Image == nil || p.Receipt == nil {
			continue
		}
		got, _, err := r.client.get(ctx, base+roomPath(n)+"/attachments/"+string(files[p.Receipt.SubmissionID]))
		if err != nil || !slices.Equal(got, p.Image) {
			r.Fail("attachment of %s in %s: %d bytes of %d, %v", p.Key, room(n), len(got), len(p.Image), err)
		}
		r.report.counts["attachments"]++
	}
}

// describe returns the description of a failed run.
func (r *run) describe() string {
	var b strings.Builder
	var seeds []string
	for _, c := range r.cycles {
		seeds = append(seeds, fmt.Sprint(c.Seed))
	}
	fmt.Fprintf(&b, "%s\nto repeat the schedule: -seed %s\n", strings.Join(r.All(), "\n"), strings.Join(seeds, ","))
	for _, c := range r.cycles {
		b.WriteString(c.String())
	}
	return b.String()
}
