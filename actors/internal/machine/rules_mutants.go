//go:build mutants

package machine

import (
	"fmt"
	"sync/atomic"
)

// Names of the rules that SetRule knows.
const (
	RuleFenceOpened   = "fence opened"       // Opening an idle log for a probe fences the listed writer before the answer.
	RuleFenceKnown    = "fence known"        // So does a probe of an idle log that is already open.
	RuleListTakeover  = "list takeover"      // A writer that takes over work is listed.
	RuleHoldListed    = "hold listed"        // A probe reports held work only once a landed journal lists the writer.
	RuleUnlistLate    = "unlist late"        // The idle state is durable before the writer is unlisted.
	RuleVouchReplay   = "ack replay"         // A replay of unsettled work is acknowledged like new work.
	RuleStayListed    = "stay listed"        // A writer that steps down stays listed.
	RuleStayAtWork    = "stay at work"       // An activation with work stays in memory.
	RuleGoOn          = "go on"              // A call whose wait a signal ends continues in the batch of the signal.
	RuleListFirst     = "list first"         // A suspended submission resumes only once a journal lists its writer.
	RuleTakeKept      = "take kept"          // A new wait consumes the signal kept for it.
	RuleRefuseLate    = "refuse late"        // The first signal for a name decides.
	RulePassSuspended = "overtake suspended" // Submissions after a suspended one are answered first.
	RuleStayForReply  = "stay for reply"     // A writer with a pending reply stays listed and sends it.
	RuleStayForPost   = "stay for post"      // So does a writer with a due post.
	RulePostInOrder   = "post in order"      // A post is sent after the previous one of its target is done.
	RuleTimePosts     = "time posts"         // Deferred posts count as suspended once their timer is stored.
	RuleSuspendStored = "suspend stored"     // Suspended submissions need stored timers likewise.
	RuleAckPending    = "ack pending"        // A replay of a submission with a pending reply or post is acknowledged like new work.
	RuleEndDelivered  = "end delivered"      // A post is done only when it is delivered.
	RuleOneRun        = "one run"            // An id has one run, even after its key expires.
	RuleJoinFirst     = "join first"         // A dispatch joins its tree durably before it is admitted.
	RuleAskTree       = "ask tree"           // An attempt of a tree asks its root before it runs anything.
	RuleAbortFirst    = "abort first"        // An abort of a tree is durable before its members are read.
	RuleRefuseClosed  = "refuse closed"      // A tree that an abort covers takes no members.
	RuleShowEndedWait = "show ended"         // Clients see the end of a wait in the batch of its call's outcome.
	RuleOwnChannel    = "own channel"        // A target that replies for a channel gets only notices of that channel's deliveries.
	RuleAskOnce       = "ask once"           // A model whose reply was empty is called once more.
	RuleOwnAddress    = "own address"        // A reply goes to the address of its own delivery.
)

// rules holds a flag for each rule that is switched off, for the whole process.
var rules struct {
	fenceOpened, fenceKnown, listTakeover, holdListed, unlistLate, ackReplay, stayListed, stayAtWork,
	continueWithSignal, listFirst, takeKept, refuseLate, passSuspended, stayForReply, stayForPost, postInOrder, timePosts,
	suspendStored, ackPending, endDelivered, oneRun, joinFirst, askTree, abortFirst, refuseClosed, ownChannel, showEndedWait, askOnce, ownAddress atomic.Bool
}

// SetRule switches a rule on or off for the whole process. It exists only in builds
// with the tag mutants.
func SetRule(name string, on bool) {
	rule := map[string]*atomic.Bool{
		RuleFenceOpened: &rules.fenceOpened, RuleFenceKnown: &rules.fenceKnown,
		RuleListTakeover: &rules.listTakeover, RuleHoldListed: &rules.holdListed,
		RuleUnlistLate: &rules.unlistLate, RuleVouchReplay: &rules.ackReplay, RuleStayListed: &rules.stayListed,
		RuleStayAtWork: &rules.stayAtWork, RuleGoOn: &rules.continueWithSignal, RuleListFirst: &rules.listFirst, RuleTakeKept: &rules.takeKept, RuleRefuseLate: &rules.refuseLate,
		RulePassSuspended: &rules.passSuspended, RuleStayForReply: &rules.stayForReply,
		RuleStayForPost: &rules.stayForPost, RulePostInOrder: &rules.postInOrder, RuleTimePosts: &rules.timePosts,
		RuleSuspendStored: &rules.suspendStored, RuleAckPending: &rules.ackPending, RuleEndDelivered: &rules.endDelivered,
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

func listsTakeover() bool       { return !rules.listTakeover.Load() }
func holdsWhenListed() bool     { return !rules.holdListed.Load() }
func unlistsWhenDurable() bool  { return !rules.unlistLate.Load() }
func acknowledgesReplay() bool  { return !rules.ackReplay.Load() }
func staysListed() bool         { return !rules.stayListed.Load() }
func staysAtWork() bool         { return !rules.stayAtWork.Load() }
func continuesWithSignal() bool { return !rules.continueWithSignal.Load() }
func listsFirst() bool          { return !rules.listFirst.Load() }
func takesKept() bool           { return !rules.takeKept.Load() }
func refusesLate() bool         { return !rules.refuseLate.Load() }
func overtakesSuspended() bool  { return !rules.passSuspended.Load() }
func staysForReply() bool       { return !rules.stayForReply.Load() }
func staysForPost() bool        { return !rules.stayForPost.Load() }
func postsInOrder() bool        { return !rules.postInOrder.Load() }
func timesPosts() bool          { return !rules.timePosts.Load() }
func suspendsWhenStored() bool  { return !rules.suspendStored.Load() }
func acknowledgesPending() bool { return !rules.ackPending.Load() }
func endsDelivered() bool       { return !rules.endDelivered.Load() }

func keepsOneRun() bool   { return !rules.oneRun.Load() }
func joinsFirst() bool    { return !rules.joinFirst.Load() }
func asksTree() bool      { return !rules.askTree.Load() }
func abortsFirst() bool   { return !rules.abortFirst.Load() }
func refusesClosed() bool { return !rules.refuseClosed.Load() }

func repliesByChannel() bool { return !rules.ownChannel.Load() }

func showsEndedWaits() bool { return !rules.showEndedWait.Load() }

func asksOnce() bool { return !rules.askOnce.Load() }

func repliesByAddress() bool { return !rules.ownAddress.Load() }
