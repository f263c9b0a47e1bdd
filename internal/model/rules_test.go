package model_test

// rule is one rule of docs/waits.md. Each can be disabled.
type rule uint8

const (
	none rule = iota
	// of waits
	signalsBypassQueue
	oneBatch
	recordOnly
	givenDurable
	suspendOpen
	suspendDurable
	timerStored
	fenceSuspended
	resumeListed
	resumeInFlight
	resumeStays
	replayListed
	keptEarly
	takenAtOnce
	firstKept
	firstEnds
	endedNotKept
	refusalSilent
	refusalDurable
	keyFirst
	timeoutRecorded
	valueStays
	answerResumes
	// of replies
	noticeHolds
	noticeAnswered
	noticeRecorded
	noticeSwept
	noticeReplayed
	noticeResent
	noticeKept
	noticeOver
	noticeKey
	noticeFirst
	// of posts
	postInOrder
	postThenDone
	postRecorded
	postHolds
	postTimed
	postSwept
	deferDurable
	timerStays
)

var names = [...]string{
	signalsBypassQueue: "W1: a signal is not queued",
	oneBatch:           "W1: the resumption and the attempt are one batch",
	recordOnly:         "W1: an ended wait alone does not count as runnable",
	givenDurable:       "W1: the end of a wait is durable before the function sees it",
	suspendOpen:        "W2: a call whose wait has ended is not suspended",
	suspendDurable:     "W2: a suspended call has a durable parked record",
	timerStored:        "W2: a suspended call has a stored timer",
	fenceSuspended:     "W2: a suspended conversation fences before it answers a sweep",
	resumeListed:       "W3: a 202 waits for the journal",
	resumeInFlight:     "W3: and for the one in flight",
	resumeStays:        "W3: a resumed conversation stays in the journal",
	replayListed:       "W3: a replay waits while work is pending",
	keptEarly:          "W4: an early signal is kept",
	takenAtOnce:        "W4: the wait takes it in its own batch",
	firstKept:          "W5: the first kept signal stays",
	firstEnds:          "W5: the first end of a wait stays",
	endedNotKept:       "W5: none is kept for a wait that has ended",
	refusalSilent:      "W5: a 409 writes nothing",
	refusalDurable:     "W5: a 409 waits for its records",
	keyFirst:           "W5: a known key replays before any refusal",
	timeoutRecorded:    "W6: a timeout is a record",
	valueStays:         "W7: the end of a wait is readable until the outcome",
	answerResumes:      "W1: a message answered first settles in one batch with the attempt for an ended wait",
	noticeHolds:        "R2: a pending notice keeps the conversation in the journal",
	noticeAnswered:     "R2: until it is answered",
	noticeRecorded:     "R2: its delivery is a record",
	noticeSwept:        "R2: a conversation with a pending notice does not answer a sweep as settled",
	noticeReplayed:     "R2: a replay waits while a notice is pending",
	noticeResent:       "R3: opening the log sends pending notices",
	noticeKept:         "R1: an early notice is kept",
	noticeOver:         "R2: a 409 is an answer",
	noticeKey:          "R2: the notice has the key of the submission",
	noticeFirst:        "R2: the first end of a wait stays",
	postInOrder:        "P1: one post per target is in flight",
	postThenDone:       "P3: a post is done when it is delivered",
	postRecorded:       "P3: its delivery is a record",
	postHolds:          "P2: a due post keeps the conversation in the journal",
	postTimed:          "P2: or its timer is stored",
	postSwept:          "P2: a sweep is answered on the same condition",
	deferDurable:       "P2: its due time is durable",
	timerStays:         "P2: a timer is deleted when nothing is due, or a landed journal lists the conversation",
}

func waitsFamily() family {
	crash := faults{crashes: 1}
	resumesNone, unreachable := "resumes no call", "no journal or timer finds the pending work"
	return family{newWaits, []scene{
		{from: atWork},
		{from: atWork, faults: crash},
		{from: allSuspended, faults: faults{crashes: 1, retries: 1, extra: 1}},
		{from: allSuspended, faults: faults{moves: 1}},
		{from: allSuspended, faults: faults{crashes: 1, messages: 1}},
	}, []scene{
		{from: atWork, faults: faults{crashes: 1, retries: 1, extra: 1}},
		{from: atWork, faults: faults{downs: 1, retries: 1, extra: 1}},
		{from: alone, faults: faults{crashes: 1, moves: 1, asks: 1}},
		{from: alone, faults: faults{crashes: 2, retries: 1, messages: 1}},
		{from: alone, faults: faults{crashes: 1, downs: 1, retries: 1, extra: 1}},
	}, []scene{
		{signalsBypassQueue, none, allSuspended, faults{}, resumesNone},
		{oneBatch, none, allSuspended, crash, resumesNone},
		{oneBatch, recordOnly, allSuspended, faults{crashes: 1, retries: 1, extra: 1}, ""},
		{answerResumes, none, allSuspended, faults{messages: 1}, resumesNone},
		{answerResumes, recordOnly, allSuspended, faults{crashes: 1, messages: 1}, ""},
		{givenDurable, none, allSuspended, faults{downs: 1, moves: 1}, "two results for one wait"},
		{suspendOpen, none, atWork, faults{}, resumesNone},
		{suspendDurable, none, atWork, crash, unreachable},
		{timerStored, none, atWork, faults{}, unreachable},
		{fenceSuspended, none, allSuspended, faults{crashes: 1, moves: 1, asks: 1}, resumesNone},
		{resumeListed, none, allSuspended, crash, resumesNone},
		{resumeInFlight, none, atWork, crash, resumesNone},
		{resumeStays, none, atWork, crash, resumesNone},
		{replayListed, none, allSuspended, faults{crashes: 2, retries: 1}, resumesNone},
		{keptEarly, none, atWork, faults{}, resumesNone},
		{takenAtOnce, none, atWork, crash, resumesNone},
		{firstKept, none, atWork, faults{}, resumesNone},
		{firstEnds, none, allSuspended, faults{}, "two results for one wait"},
		{endedNotKept, none, allSuspended, faults{}, resumesNone},
		{refusalSilent, none, allSuspended, faults{}, "is recorded"},
		{refusalDurable, none, allSuspended, faults{}, "without a decision"},
		{keyFirst, none, allSuspended, faults{crashes: 1, retries: 1}, "its own effect"},
		{timeoutRecorded, none, allSuspended, faults{extra: 1}, "two results for one wait"},
		{valueStays, none, allSuspended, crash, "without a decision"},
	}}
}

func repliesFamily() family {
	crash, lost, waits := faults{crashes: 1}, faults{retries: 1}, "the sender waits"
	all := faults{crashes: 1, retries: 1, extra: 1}
	return family{newReplies, []scene{{from: idleWorld}, {from: idleWorld, faults: all}, {from: noticePending, faults: all}}, []scene{
		{from: idleWorld, faults: faults{crashes: 2, retries: 1, extra: 1}},
		{from: idleWorld, faults: faults{crashes: 1, downs: 1, retries: 1, extra: 1}},
		{from: noticePending, faults: faults{downs: 1, moves: 1}},
	}, []scene{
		{noticeHolds, none, idleWorld, crash, waits},
		{noticeAnswered, none, idleWorld, lost, waits},
		{noticeRecorded, none, idleWorld, faults{}, "whenever the log is opened"},
		{noticeSwept, none, noticePending, crash, waits},
		{noticeReplayed, none, idleWorld, faults{crashes: 2}, waits},
		{noticeResent, none, idleWorld, crash, "set is not empty"},
		{noticeKept, none, idleWorld, faults{}, waits},
		{noticeOver, none, idleWorld, faults{extra: 1}, "never finished"},
		{noticeKey, none, noticePending, all, ""},
		{noticeFirst, none, noticePending, all, ""},
		{noticeKey, noticeFirst, idleWorld, crash, "twice"},
	}}
}

func postsFamily() family {
	crash, lost, misses := faults{crashes: 1}, faults{retries: 1}, "misses a post"
	all := faults{crashes: 1, retries: 1}
	return family{newPosts, []scene{
		{from: atWork}, {from: atWork, faults: lost},
		{from: undelivered, faults: all},
		{from: deferredWorld, faults: all},
	}, []scene{
		{from: atWork, faults: all},
		{from: undelivered, faults: faults{downs: 1, retries: 1}},
	}, []scene{
		{postInOrder, none, atWork, faults{}, "out of order"},
		{postThenDone, none, atWork, lost, "out of order"},
		{postRecorded, none, atWork, faults{}, "set is not empty"},
		{postHolds, none, atWork, crash, misses},
		{postTimed, none, undelivered, lost, misses},
		{postSwept, none, undelivered, crash, misses},
		{deferDurable, none, undelivered, all, misses},
		{timerStays, none, deferredWorld, crash, misses},
	}}
}

// Violations of safety.
const (
	wrongGiven = iota + 1
	wrongUndecided
	wrongOwnRefused
	wrongRefusalWrites
	wrongTwice
	wrongOrder
)

var violations = []string{"",
	wrongGiven:         "the function got two results for one wait",
	wrongUndecided:     "a signal was refused without a decision in the durable log",
	wrongOwnRefused:    "a signal was refused because of its own effect",
	wrongRefusalWrites: "a signal was refused, and is recorded",
	wrongTwice:         "a notice is recorded twice",
	wrongOrder:         "posts were delivered out of order",
}

var batchNames = [...]string{nothing: "nothing", claim: "a claim", attempt: "attempt_started", wait: "wait_started", waitTakes: "wait_started, wait_ended by the kept signal",
	suspend: "parked", endTimeout: "wait_ended by its timeout", end1: "wait_ended by signal 1", end2: "wait_ended by signal 2",
	keep1: "signal_kept 1", keep2: "signal_kept 2", queue1: "signal 1 in the queue", queue2: "signal 2 in the queue", outcome: "the outcome",
	message: "the message, and its attempt", answer: "the message is settled",
	admit: "submission_admitted", settle: "submission_settled", delivered: "notice_delivered",
	post1: "post_enqueued 1", post2: "post_enqueued 2", done1: "post 1 is done", done2: "post 2 is done", defer1: "post_deferred", defer2: "post_deferred again"}
