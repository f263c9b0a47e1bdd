package model_test

// rule is one sentence of docs/waits.md. The models can do without each.
type rule uint8

const (
	none rule = iota
	// of waits
	besideQueue
	oneBatch
	recordOnly
	givenDurable
	suspendOpen
	suspendDurable
	timerStored
	fenceSuspended
	wakeListed
	wakeInFlight
	wakeStays
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
	besideQueue:     "W1: a signal does not stand in the queue",
	oneBatch:        "W1: the wake and the attempt are one batch",
	recordOnly:      "W1: what has ended a wait does not count as runnable by itself",
	givenDurable:    "W1: what ends a wait is durable before the function is given it",
	suspendOpen:     "W2: a call whose wait has ended is not parked",
	suspendDurable:  "W2: asleep is who is parked durably",
	timerStored:     "W2: asleep is whose timer is stored",
	fenceSuspended:  "W2: who sleeps fences before it answers a sweep",
	wakeListed:      "W3: a 202 waits for the journal",
	wakeInFlight:    "W3: and for the one in flight",
	wakeStays:       "W3: who wakes does not leave the journal",
	replayListed:    "W3: a replay waits as long as anything is owed",
	keptEarly:       "W4: a signal that comes first is kept",
	takenAtOnce:     "W4: the wait takes it in its own batch",
	firstKept:       "W5: the first that is kept stays",
	firstEnds:       "W5: the first that ends a wait stays",
	endedNotKept:    "W5: none is kept for a wait that has ended",
	refusalSilent:   "W5: a 409 writes nothing",
	refusalDurable:  "W5: a 409 waits for what it rests on",
	keyFirst:        "W5: a known key replays before anything is refused",
	timeoutRecorded: "W6: a timeout is a record",
	valueStays:      "W7: what has ended a wait can be read until the outcome",
	answerResumes:   "W1: what was answered first settles in one batch with the attempt for a wait that has ended",
	noticeHolds:     "R2: who owes a notice stays in the journal",
	noticeAnswered:  "R2: until it is answered",
	noticeRecorded:  "R2: that it is delivered is a record",
	noticeSwept:     "R2: who owes a notice does not answer a sweep that it is settled",
	noticeReplayed:  "R2: a replay waits as long as a notice is owed",
	noticeResent:    "R3: whoever opens the log sends what is owed",
	noticeKept:      "R1: a notice that comes before the wait is kept",
	noticeOver:      "R2: a 409 is an answer",
	noticeKey:       "R2: the notice has the key of the submission",
	noticeFirst:     "R2: the first that ends a wait stays",
	postInOrder:     "P1: one post of a target is under way",
	postThenDone:    "P3: a post is done when it is delivered",
	postRecorded:    "P3: that it is delivered is a record",
	postHolds:       "P2: who owes a post that is due stays in the journal",
	postTimed:       "P2: or its timer is stored",
	postSwept:       "P2: a sweep is answered on the same condition",
	deferDurable:    "P2: when it is due is durable",
	timerStays:      "P2: a timer goes when nothing is due, or a landed journal lists who goes on",
}

func waitsFamily() family {
	crash := faults{crashes: 1}
	resumesNone, forgotten := "wakes nobody", "nothing finds what waits"
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
		{besideQueue, none, allSuspended, faults{}, resumesNone},
		{oneBatch, none, allSuspended, crash, resumesNone},
		{oneBatch, recordOnly, allSuspended, faults{crashes: 1, retries: 1, extra: 1}, ""},
		{answerResumes, none, allSuspended, faults{messages: 1}, resumesNone},
		{answerResumes, recordOnly, allSuspended, faults{crashes: 1, messages: 1}, ""},
		{givenDurable, none, allSuspended, faults{downs: 1, moves: 1}, "given two things"},
		{suspendOpen, none, atWork, faults{}, resumesNone},
		{suspendDurable, none, atWork, crash, forgotten},
		{timerStored, none, atWork, faults{}, forgotten},
		{fenceSuspended, none, allSuspended, faults{crashes: 1, moves: 1, asks: 1}, resumesNone},
		{wakeListed, none, allSuspended, crash, resumesNone},
		{wakeInFlight, none, atWork, crash, resumesNone},
		{wakeStays, none, atWork, crash, resumesNone},
		{replayListed, none, allSuspended, faults{crashes: 2, retries: 1}, resumesNone},
		{keptEarly, none, atWork, faults{}, resumesNone},
		{takenAtOnce, none, atWork, crash, resumesNone},
		{firstKept, none, atWork, faults{}, resumesNone},
		{firstEnds, none, allSuspended, faults{}, "given two things"},
		{endedNotKept, none, allSuspended, faults{}, resumesNone},
		{refusalSilent, none, allSuspended, faults{}, "is recorded"},
		{refusalDurable, none, allSuspended, faults{}, "has no decision"},
		{keyFirst, none, allSuspended, faults{crashes: 1, retries: 1}, "decided itself"},
		{timeoutRecorded, none, allSuspended, faults{extra: 1}, "given two things"},
		{valueStays, none, allSuspended, crash, "has no decision"},
	}}
}

func repliesFamily() family {
	crash, lost, waits := faults{crashes: 1}, faults{retries: 1}, "the asker waits"
	all := faults{crashes: 1, retries: 1, extra: 1}
	return family{newReplies, []scene{{from: quietly}, {from: quietly, faults: all}, {from: silent, faults: all}}, []scene{
		{from: quietly, faults: faults{crashes: 2, retries: 1, extra: 1}},
		{from: quietly, faults: faults{crashes: 1, downs: 1, retries: 1, extra: 1}},
		{from: silent, faults: faults{downs: 1, moves: 1}},
	}, []scene{
		{noticeHolds, none, quietly, crash, waits},
		{noticeAnswered, none, quietly, lost, waits},
		{noticeRecorded, none, quietly, faults{}, "whenever the log is opened"},
		{noticeSwept, none, silent, crash, waits},
		{noticeReplayed, none, quietly, faults{crashes: 2}, waits},
		{noticeResent, none, quietly, crash, "set is not empty"},
		{noticeKept, none, quietly, faults{}, waits},
		{noticeOver, none, quietly, faults{extra: 1}, "for ever"},
		{noticeKey, none, silent, all, ""},
		{noticeFirst, none, silent, all, ""},
		{noticeKey, noticeFirst, quietly, crash, "twice"},
	}}
}

func postsFamily() family {
	crash, lost, misses := faults{crashes: 1}, faults{retries: 1}, "misses a post"
	all := faults{crashes: 1, retries: 1}
	return family{newPosts, []scene{
		{from: atWork}, {from: atWork, faults: lost},
		{from: undelivered, faults: all},
		{from: putOff, faults: all},
	}, []scene{
		{from: atWork, faults: all},
		{from: undelivered, faults: faults{downs: 1, retries: 1}},
	}, []scene{
		{postInOrder, none, atWork, faults{}, "before the one before"},
		{postThenDone, none, atWork, lost, "before the one before"},
		{postRecorded, none, atWork, faults{}, "set is not empty"},
		{postHolds, none, atWork, crash, misses},
		{postTimed, none, undelivered, lost, misses},
		{postSwept, none, undelivered, crash, misses},
		{deferDurable, none, undelivered, all, misses},
		{timerStays, none, putOff, crash, misses},
	}}
}

// What must never be.
const (
	wrongGiven = iota + 1
	wrongUndecided
	wrongOwnRefused
	wrongRefusalWrites
	wrongTwice
	wrongOrder
)

var wrongs = []string{"",
	wrongGiven:         "the function was given two things for one wait",
	wrongUndecided:     "a signal was refused, and the durable log has no decision",
	wrongOwnRefused:    "a signal was refused for what it has decided itself",
	wrongRefusalWrites: "a signal was refused, and is recorded",
	wrongTwice:         "a notice is a fact twice",
	wrongOrder:         "a post came before the one before it",
}

var says = [...]string{nothing: "nothing", claim: "a claim", attempt: "attempt_started", wait: "wait_started", waitTakes: "wait_started, wait_ended by what was kept",
	suspend: "parked", endTimeout: "wait_ended by its timeout", end1: "wait_ended by signal 1", end2: "wait_ended by signal 2",
	keep1: "signal_kept 1", keep2: "signal_kept 2", queue1: "signal 1 in the queue", queue2: "signal 2 in the queue", outcome: "the outcome",
	message: "the message, and its attempt", answer: "the message is settled",
	admit: "submission_admitted", settle: "submission_settled", delivered: "notice_delivered",
	post1: "post_enqueued 1", post2: "post_enqueued 2", done1: "post 1 is done", done2: "post 2 is done", defer1: "post_deferred", defer2: "post_deferred again"}
