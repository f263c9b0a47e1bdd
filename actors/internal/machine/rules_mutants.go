//go:build mutants

package machine

import (
	"fmt"
	"sync/atomic"
)

// Names of the rules that SetRule knows.
const (
	RuleFenceOpened   = "fence opened"   // Who opens an idle log for a poke fences before it answers.
	RuleFenceKnown    = "fence known"    // So does who remembers it as idle.
	RuleListTakeover  = "list takeover"  // Who takes work over is listed.
	RuleHoldListed    = "hold listed"    // Work is held once a landed journal says so.
	RuleUnlistLate    = "unlist late"    // Idle is durable before the writer leaves the set.
	RuleVouchReplay   = "vouch replay"   // A replay of unsettled work is acknowledged like new work.
	RuleStayListed    = "stay listed"    // Who steps down stays in the set.
	RuleStayAtWork    = "stay at work"   // Who has something to do stays in memory.
	RuleGoOn          = "go on"          // What a signal ends goes on in the batch of the signal.
	RuleListFirst     = "list first"     // Who is parked goes on once a journal lists it.
	RuleTakeKept      = "take kept"      // Who begins to wait takes the signal that is kept.
	RuleRefuseLate    = "refuse late"    // The first signal for a name decides.
	RulePassSuspended = "pass parked"    // Who comes after a parked submission is answered first.
	RuleStayForReply  = "stay for reply" // Who owes a reply stays listed, and sends it.
	RuleStayForPost   = "stay for post"  // So does who owes a post that is due.
	RulePostInOrder   = "post in order"  // A post leaves when the one before it is done.
	RuleTimePosts     = "time posts"     // Who waits with posts is asleep once their timer is stored.
	RuleSleepStored   = "sleep stored"   // And whose timers are stored.
	RuleVouchPending  = "vouch owed"     // A replay of what is owed a reply or a post is acknowledged like new work.
	RuleEndDelivered  = "end delivered"  // A post is done when it is delivered.
	RuleOneRun        = "one run"        // Of an id there is one run, whatever has become of its key.
	RuleJoinFirst     = "join first"     // A dispatch joins its tree durably before it is admitted.
	RuleAskTree       = "ask tree"       // An attempt of a tree asks its root before it runs anything.
	RuleAbortFirst    = "abort first"    // An abort of a tree is durable before its members are read.
	RuleRefuseClosed  = "refuse closed"  // A tree that an abort covers takes no members.
	RuleShowEndedWait = "show ended"     // Clients see that a wait is over in the batch of its call's outcome.
	RuleOwnChannel    = "own channel"    // A target that replies for a channel gets the notices of its deliveries alone.
	RuleAskOnce       = "ask once"       // A model whose reply was empty is asked once more.
	RuleOwnAddress    = "own address"    // A reply goes to the address of its own delivery.
)

// rules are switched off when true. They hold for the whole process.
var rules struct {
	fenceOpened, fenceKnown, listTakeover, holdListed, unlistLate, vouchReplay, stayListed, stayAtWork,
	goOn, listFirst, takeKept, refuseLate, passSuspended, stayForReply, stayForPost, postInOrder, timePosts,
	sleepStored, vouchPending, endDelivered, oneRun, joinFirst, askTree, abortFirst, refuseClosed, ownChannel, showEndedWait, askOnce, ownAddress atomic.Bool
}

// SetRule switches a rule on or off for the whole process. It exists only in builds
// with the tag mutants.
func SetRule(name string, on bool) {
	rule := map[string]*atomic.Bool{
		RuleFenceOpened: &rules.fenceOpened, RuleFenceKnown: &rules.fenceKnown,
		RuleListTakeover: &rules.listTakeover, RuleHoldListed: &rules.holdListed,
		RuleUnlistLate: &rules.unlistLate, RuleVouchReplay: &rules.vouchReplay, RuleStayListed: &rules.stayListed,
		RuleStayAtWork: &rules.stayAtWork, RuleGoOn: &rules.goOn, RuleListFirst: &rules.listFirst, RuleTakeKept: &rules.takeKept, RuleRefuseLate: &rules.refuseLate,
		RulePassSuspended: &rules.passSuspended, RuleStayForReply: &rules.stayForReply,
		RuleStayForPost: &rules.stayForPost, RulePostInOrder: &rules.postInOrder, RuleTimePosts: &rules.timePosts,
		RuleSleepStored: &rules.sleepStored, RuleVouchPending: &rules.vouchPending, RuleEndDelivered: &rules.endDelivered,
		RuleOneRun: &rules.oneRun, RuleJoinFirst: &rules.joinFirst, RuleAskTree: &rules.askTree, RuleAbortFirst: &rules.abortFirst,
		RuleRefuseClosed: &rules.refuseClosed, RuleOwnChannel: &rules.ownChannel, RuleOwnAddress: &rules.ownAddress,
		RuleShowEndedWait: &rules.showEndedWait, RuleAskOnce: &rules.askOnce,
	}[name]
	if rule == nil {
		panic(fmt.Sprintf("machine: no rule %q", name))
	}
	rule.Store(!on)
}

func fencesIdle(claimed bool) bool {
	if claimed {
		return !rules.fenceKnown.Load()
	}
	return !rules.fenceOpened.Load()
}

func listsTakeover() bool      { return !rules.listTakeover.Load() }
func holdsWhenListed() bool    { return !rules.holdListed.Load() }
func unlistsWhenDurable() bool { return !rules.unlistLate.Load() }
func vouchesForReplay() bool   { return !rules.vouchReplay.Load() }
func staysListed() bool        { return !rules.stayListed.Load() }
func staysAtWork() bool        { return !rules.stayAtWork.Load() }
func goesOnWithSignal() bool   { return !rules.goOn.Load() }
func listsFirst() bool         { return !rules.listFirst.Load() }
func takesKept() bool          { return !rules.takeKept.Load() }
func refusesLate() bool        { return !rules.refuseLate.Load() }
func passesSuspended() bool    { return !rules.passSuspended.Load() }
func staysForReply() bool      { return !rules.stayForReply.Load() }
func staysForPost() bool       { return !rules.stayForPost.Load() }
func postsInOrder() bool       { return !rules.postInOrder.Load() }
func timesPosts() bool         { return !rules.timePosts.Load() }
func sleepsWhenStored() bool   { return !rules.sleepStored.Load() }
func vouchesForPending() bool  { return !rules.vouchPending.Load() }
func endsDelivered() bool      { return !rules.endDelivered.Load() }

func keepsOneRun() bool   { return !rules.oneRun.Load() }
func joinsFirst() bool    { return !rules.joinFirst.Load() }
func asksTree() bool      { return !rules.askTree.Load() }
func abortsFirst() bool   { return !rules.abortFirst.Load() }
func refusesClosed() bool { return !rules.refuseClosed.Load() }

func repliesByChannel() bool { return !rules.ownChannel.Load() }

func showsEndedWaits() bool { return !rules.showEndedWait.Load() }

func asksOnce() bool { return !rules.askOnce.Load() }

func repliesByAddress() bool { return !rules.ownAddress.Load() }
