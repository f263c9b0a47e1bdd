package actors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// simScript is an interleaving that needs one rule of the pending-work journal.
type simScript struct {
	name string
	run  func(s *simCluster)
}

func simScripts() []simScript {
	return []simScript{
		{"the node crashes before its journal lands", crashesUnlisted},
		{"a writer is fenced without a successor", isFencedAlone},
		{"a write is in flight while an idle log is probed", landsAfterTheProbe},
		{"another wrote since the owner was idle", wroteSinceIdle},
		{"the owner cannot write", cannotTakeOver},
		{"the owner crashes before its journal lands", takesOverUnlisted},
		{"the owner answers before its journal lands", holdsUnlisted},
		{"a settlement never lands", losesSettlement},
		{"a journal appears again after it was swept", listsAfterTheSweep},
		{"the next journal never lands", dropsTheNext},
		{"the answer to a journal is slow", answersSlowly},
		{"a journal lands in the middle of a sweep", landsDuringTheSweep},
		{"a writer is followed by another on its node", opensAnew},
		{"an admission arrives while the next journal is in flight", comesBackListed},
		{"an entry of the sweeper is about to leave", coversLeaving},
		{"an entry of the sweeper is not fenced yet", coversUnclaimed},
		{"a key is retried at a node that crashes", repeatsElsewhere},
		{"a conversation crashes every node that opens it", crashesItsNodes},
		{"a read crashes its node", readCrashesNodes},
		{"busy nodes are killed while they open a conversation", killedAtWork},
		{"a release is interrupted", isReleasedTwice},
		{"a quarantined conversation is repaired", isReleased},
		{"a node is stopped while it probes a suspect", isStoppedInTrial},
	}
}

// TestScripts runs every script with all rules enabled.
func TestScripts(t *testing.T) {
	system := newSimSystem(t)
	for _, c := range simScripts() {
		t.Run(c.name, func(t *testing.T) {
			if v := runSimScript(t, system, c.run); v != "" {
				t.Error(v)
			}
		})
	}
}

// held starts nodes and has a admit to x a message whose settlement is blocked.
func held(s *simCluster, names ...string) *hold {
	s.Helper()
	s.start(names...)
	h := s.hold("a", batches("x", 1))
	s.admit("a", "x", "k0")
	s.acked("x", "k0")
	return h.await()
}

func crashesUnlisted(s *simCluster) {
	s.start("a", "b")
	s.hold("a", journals("a", 0))
	s.hold("a", batches("x", 1))
	s.admit("a", "x", "k0")
	s.kill("a")
}

// isFencedAlone has b take x from a, and crash before its journal lands.
func isFencedAlone(s *simCluster) {
	settlement := held(s, "a", "b")
	s.setOwnerView("b", "b")
	s.hold("b", journals("b", 0))
	s.hold("b", batches("x", 2))
	s.admit("b", "x", "k1")
	s.setOwnerView("a", "b")
	settlement.release(true) // finds another batch in its place
	s.kill("b")
	s.pass(3 * pending.Linger)
}

// landsAfterTheProbe has b answer for x while the first batch of a is in flight.
func landsAfterTheProbe(s *simCluster) {
	s.start("a", "b")
	batch := s.hold("a", batches("x", 0))
	s.admit("a", "x", "k0")
	batch.await()
	s.setOwnerView("b", "b")
	s.sweep("b")
	s.pass(100 * time.Millisecond)
	s.hold("a", batches("x", 1))
	batch.release(true)
	s.kill("a")
}

// wroteSinceIdle has c write to x while b considers it idle.
func wroteSinceIdle(s *simCluster) {
	s.start("a", "b", "c")
	s.setOwnerView("b", "b")
	s.admit("b", "x", "k0")
	s.acked("x", "k0")
	s.pass(5 * time.Second)
	s.setOwnerView("c", "c")
	s.hold("c", batches("x", 3))
	s.admit("c", "x", "k1")
	s.acked("x", "k1")
	s.kill("c")
	s.sweep("b")
	s.pass(time.Minute)
	s.kill("b")
}

// cannotTakeOver probes b about x when it can write neither batch nor journal.
func cannotTakeOver(s *simCluster) {
	held(s, "a", "b", "c")
	s.kill("a")
	s.setOwnerView("b", "b")
	s.hold("b", batches("x", 1))
	s.hold("b", journals("b", 0))
	s.sweep("b")
	s.pass(2 * pending.ProbeTimeout)
	s.kill("b")
}

// takesOverUnlisted has b claim x, and crash before its journal lands.
func takesOverUnlisted(s *simCluster) {
	held(s, "a", "b", "c")
	s.kill("a")
	s.setOwnerView("b", "b")
	s.hold("b", batches("x", 2))
	s.hold("b", journals("b", 2)) // after the journals that announce the opening of x
	s.sweep("b")
	s.pass(time.Second)
	s.kill("b")
}

// holdsUnlisted has b claim x for a client, not for a sweep, so that no journal of b announces the opening. C sweeps the
// journal of a, and b crashes before its own journal lands.
func holdsUnlisted(s *simCluster) {
	held(s, "a", "b", "c")
	s.setOwnerView("b", "b")
	s.setOwnerView("c", "b")
	claim := s.hold("b", batches("x", 1))
	s.hold("b", journals("b", 0))
	s.admit("b", "x", "k1")
	claim.await()
	s.kill("a")
	s.sweep("c")
	s.hold("b", batches("x", 2))
	claim.release(true)
	s.pass(time.Second)
	s.kill("b")
	s.setOwnerView("c", "c")
}

func losesSettlement(s *simCluster) {
	held(s, "a", "b")
	s.pass(3 * pending.Linger)
	s.kill("a")
}

// listsAfterTheSweep has b sweep the empty journal of a, which then writes the next.
func listsAfterTheSweep(s *simCluster) {
	s.start("a", "b")
	s.admit("a", "x", "k0")
	s.pass(3 * pending.Linger)
	s.sweep("b")
	s.hold("a", batches("x", 3))
	s.admit("a", "x", "k1")
	s.acked("x", "k1")
	s.kill("a")
}

// dropsTheNext has a crash while its journal that also lists y is in flight.
func dropsTheNext(s *simCluster) {
	held(s, "a", "b")
	next := s.hold("a", journals("a", 1))
	s.admit("a", "y", "k0")
	next.await()
	s.pass(time.Second)
	s.kill("a")
}

// answersSlowly has y admitted while a does not know that its journal has landed.
func answersSlowly(s *simCluster) {
	s.start("a", "b")
	s.hold("a", batches("x", 1))
	s.hold("a", batches("y", 1))
	first := s.hold("a", journals("a", 0))
	first.answers = true
	s.admit("a", "x", "k0")
	first.await()
	s.admit("a", "y", "k0")
	s.pass(3 * time.Second)
	s.hold("a", journals("a", 1))
	first.release(true)
	s.pass(3 * time.Second)
	s.kill("a")
}

// landsDuringTheSweep has a list y while b answers for x, which is in the journal before.
func landsDuringTheSweep(s *simCluster) {
	held(s, "a", "b", "c")
	s.setOwnerView("b", "b")
	claim := s.hold("b", batches("x", 1))
	s.sweep("b")
	claim.await()
	s.hold("a", batches("y", 1))
	s.admit("a", "y", "k0")
	s.acked("y", "k0")
	s.kill("a")
	claim.release(true)
	s.pass(time.Second)
	s.kill("b")
}

// opensAnew has a lose x to b and get it again, and its own sweep remove the entry of its first
// writer.
func opensAnew(s *simCluster) {
	settlement := held(s, "a", "b")
	s.setOwnerView("b", "b")
	s.admit("b", "x", "k1")
	s.acked("x", "k1")
	settlement.release(true) // finds another batch in its place
	s.hold("a", batches("x", s.tail("x")+2))
	s.admit("a", "x", "k2")
	s.acked("x", "k2")
	s.pass(3 * pending.SoonAfter)
	s.kill("a")
}

// comesBackListed has x admit again while the journal without it is in flight.
func comesBackListed(s *simCluster) {
	s.start("a", "b")
	s.admit("a", "x", "k0")
	s.acked("x", "k0")
	without := s.hold("a", journals("a", 1))
	s.pass(2 * pending.Linger)
	without.await()
	s.hold("a", batches("x", 3))
	s.hold("a", journals("a", 2))
	s.admit("a", "x", "k1")
	without.release(true)
	s.kill("a")
}

// coversLeaving has c sweep while its own entry of x lingers, which a has taken over.
func coversLeaving(s *simCluster) {
	s.start("a", "b", "c")
	s.setOwnerView("c", "c")
	s.admit("c", "x", "k0")
	s.hold("a", batches("x", 3))
	s.admit("a", "x", "k1")
	s.acked("x", "k1")
	s.kill("a")
	s.sweep("c")
	s.pass(time.Minute)
	s.kill("c")
}

// coversUnclaimed has c list x, then fail to claim it, and a continue x.
func coversUnclaimed(s *simCluster) {
	settlement := held(s, "a", "b", "c")
	s.setOwnerView("c", "c")
	claim := s.hold("c", batches("x", 1))
	s.admit("c", "x", "k1")
	claim.await()
	settlement.release(true)
	s.sweep("c")
	s.setOwnerView("c", "a")
	claim.release(true) // finds another batch in its place
	s.sweep("c")
	s.hold("a", batches("x", s.tail("x")+2))
	s.admit("a", "x", "k2") // within the linger
	s.acked("x", "k2")
	s.pass(time.Second)
	s.kill("a")
	s.kill("c")
}

// repeatsElsewhere has a client retry at b an admission that a could not list.
func repeatsElsewhere(s *simCluster) {
	s.start("a", "b", "c")
	s.hold("a", batches("x", 1))
	s.hold("a", journals("a", 0))
	s.admit("a", "x", "k0")
	s.setOwnerView("b", "b")
	s.hold("b", batches("x", 1))
	s.hold("b", journals("b", 0))
	s.admit("b", "x", "k0")
	s.kill("a")
	s.kill("b")
}

// crashesOver has nodes start and crash, one after the other, on x, which a has left together with y. Y
// is opened slowly, so that a node which opens both concurrently crashes while it opens y.
func crashesOver(s *simCluster, nodes ...string) {
	s.Helper()
	s.start("a")
	s.hold("a", batches("x", 1))
	s.hold("a", batches("y", 1))
	for _, conv := range []string{"x", "y"} {
		s.admit("a", conv, "k0")
		s.acked(conv, "k0")
	}
	s.kill("a")
	s.setDeadly("x")
	s.crash(nodes...)
}

// crash starts nodes, one after the other, and reports a violation if one of them survives.
func (s *simCluster) crash(nodes ...string) {
	s.Helper()
	for _, name := range nodes {
		s.start(name)
		s.pass(time.Minute)
		if !s.nodes[name].isCrashed() && s.broken == "" {
			s.broken = name + " has not crashed"
		}
	}
}

// crashesItsNodes has nodes crash on x: b opens y as well, and c works on y, so that the crashes of d, e
// and f count. The sixth node quarantines x, and continues it after repair and release.
func crashesItsNodes(s *simCluster) {
	crashesOver(s, "b", "c", "d", "e", "f")
	s.start("g")
	s.pass(time.Minute)
	s.wantQuarantined("x")
	if s.nodes["g"].isCrashed() && s.broken == "" {
		s.broken = "the sixth node crashed, too"
	}
	if s.broken != "" {
		return
	}
	s.sweep("g")
	if refs, err := storage.Journals(s.Context(), s.store); err != nil || len(refs) > 1 {
		s.broken = fmt.Sprintf("got remaining journals %v, %v", refs, err)
	}
	if _, err := s.nodes["g"].rt.Admit(s.Context(), conversation.Admission{Address: at("x"), Key: "k1"}); conversation.CodeOf(err) != conversation.CodeQuarantined {
		s.broken = fmt.Sprintf("message to a quarantined conversation: got %v", err)
	}
	if _, err := s.nodes["g"].rt.Reader().Snapshot(s.Context(), at("x")); conversation.CodeOf(err) != conversation.CodeQuarantined {
		s.broken = fmt.Sprintf("read of a quarantined conversation: got %v", err)
	}
	if n := s.nodes["g"].rt.Status().Quarantined; n != 1 {
		s.broken = fmt.Sprintf("got %d quarantined conversations", n)
	}
	s.setDeadly("")
	if err := storage.PutBack(s.Context(), s.store, at("x").Key()); err != nil {
		s.broken = err.Error()
	}
}

// readCrashesNodes has b crash on a read of x, which has no pending work, so that only checks open
// it. Three nodes later it is quarantined.
func readCrashesNodes(s *simCluster) {
	s.start("a")
	s.admit("a", "x", "k0")
	s.acked("x", "k0")
	s.pass(time.Minute)
	s.kill("a")
	s.start("b")
	s.reading = 2 * pending.SlowOpening
	s.setDeadly("x")
	s.late.Go(func() { _, _ = s.nodes["b"].rt.Reader().Snapshot(s.Context(), at("x")) })
	s.pass(3 * time.Second)
	if !s.nodes["b"].isCrashed() {
		s.Fatal("off the script: no read by b")
	}
	s.crash("c", "d", "e")
	s.start("f")
	s.pass(3 * time.Second)
	s.wantQuarantined("x")
	s.setDeadly("")
	if err := storage.PutBack(s.Context(), s.store, at("x").Key()); err != nil && s.broken == "" {
		s.broken = err.Error()
	}
}

// killedAtWork kills nodes while each opens x and works on a conversation of its own, which may be the
// cause. X is not quarantined.
func killedAtWork(s *simCluster) {
	busy := []string{"b", "c", "d", "e"}
	s.start(append([]string{"a"}, busy...)...)
	for _, name := range busy {
		s.setOwnerView(name, name)
		s.hold(name, batches("of "+name, 1))
		s.admit(name, "of "+name, "k0")
		s.acked("of "+name, "k0")
	}
	s.hold("a", batches("x", 1))
	s.admit("a", "x", "k0")
	s.acked("x", "k0")
	s.setSlow("x", time.Hour)
	s.kill("a")
	for _, name := range busy {
		s.sweep(name)
		s.pass(12 * time.Second)
		s.kill(name)
	}
	s.setSlow("", 0)
	s.start("f")
	s.pass(time.Minute)
	s.wantQuarantined()
}

// isReleasedTwice interrupts the release of x, and repeats it.
func isReleasedTwice(s *simCluster) {
	crashesOver(s, "b", "c", "d", "e", "f")
	s.start("g")
	s.wantQuarantined("x")
	s.setDeadly("")
	interrupted := storagetest.Through(s.store, new(endsWithin).carry)
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	if err := storage.PutBack(ctx, interrupted, at("x").Key()); err == nil {
		s.broken = "release not interrupted"
	}
	s.sweep("g")
	if err := storage.PutBack(s.Context(), s.store, at("x").Key()); err != nil && !errors.Is(err, storage.ErrNotFound) {
		s.broken = err.Error()
	}
}

// endsWithin is the bucket access of a process that ends after one of the two steps that release a
// conversation.
type endsWithin struct{ over bool }

func (e *endsWithin) carry(ctx context.Context, c *storagetest.Call) error {
	step := strings.HasPrefix(c.Key, "pending/") && c.Method == http.MethodPut || strings.HasPrefix(c.Key, "quarantine/") && c.Method == http.MethodDelete
	if e.over && c.Method != http.MethodGet && c.Method != "LIST" {
		return c.Unanswered(errStageLost)
	}
	e.over = e.over || step
	return c.Do(ctx)
}

// isReleased has x crash one more node when it is probed, and then none for twice as long. Once
// repaired, it continues by itself.
func isReleased(s *simCluster) {
	crashesOver(s, "b", "c", "d", "e", "f")
	s.start("g")
	s.wantQuarantined("x")
	live := func(name string, want bool) {
		s.pass(time.Minute)
		if got := !s.nodes[name].isCrashed(); got != want && s.broken == "" {
			s.broken = fmt.Sprintf("%s: got running %t, want %t", name, got, want)
		}
	}
	s.sweep("g")
	live("g", true)
	s.pass(10 * time.Minute)
	s.sweep("g")
	live("g", false)
	s.start("h")
	live("h", true)
	s.pass(12 * time.Minute)
	s.sweep("h")
	live("h", true)
	s.wantQuarantined("x")
	s.setDeadly("")
	s.pass(10 * time.Minute)
	s.sweep("h")
	live("h", true)
	s.wantQuarantined()
}

// isStoppedInTrial stops f while it pauses before it opens x. It ends at once.
func isStoppedInTrial(s *simCluster) {
	crashesOver(s, "b", "c", "d", "e")
	s.late.Go(func() { s.start("f") })
	s.pass(3 * time.Second)
	synctest.Wait()
	f := s.nodes["f"]
	select {
	case <-f.rt.Ready():
		s.Fatal("off the script: no pause of f")
	default:
	}
	began := time.Now()
	f.stop()
	<-f.done
	if took := time.Since(began); took > 5*time.Second && s.broken == "" {
		s.broken = fmt.Sprintf("got stop of f after %v", took)
	}
	s.setDeadly("")
	s.kill("f")
	s.start("g")
	s.pass(time.Minute)
	s.wantQuarantined()
}
