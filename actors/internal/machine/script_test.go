package machine_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// TestTranscripts runs the scripts in testdata. Each command feeds one input to the machine and prints
// the effects in order. `go test -rewrite` records them again.
//
//	new       a new log and machine [writer= pace= idle= attempts= timeout= waiting= pending= batch= tools= response= callbytes= calls= start finish settled in-order notify= checkpoint= run]
//	open      read the durable log, or the checkpoint and the log after it; input lines are batches to add first
//	open-failed
//	admit     admit a delivery: key= body= [run] [uid= | absent] [precheck] [data=] [agent=] [file=] [asked] [notify=] [keep=]
//	appended  the batch in flight is durable
//	lost      it is fenced by another writer [writer=], or its outcome is unknown [landed]
//	listed    the journal lists the writer
//	tail      a tail read ends [tail=] or fails
//	model     events of the model call, one per line [name=] [passed= a recently failed model] [gen=]
//	tool      a tool ends: call= output= | failed= [took=] [terminate] [image=] [set=key:value] [gen=]
//	step      a durable tool's step ends: call= name= output= [gen=]
//	suspended a call is suspended: call= in= [gen=]
//	wait      a call waits for a signal: call= name= in= [schema=] [kept= value= | unfit] [gen=]
//	signal    admit a signal: key= name= body= [schema= value= | unfit]
//	reply-sent  the newest reply is delivered or no longer wanted
//	post      a call posts: call= id= target= body= [step=] [gen=]
//	post-tried  a delivery attempt of the newest post ends: delivered | failed= [gone] [after=]
//	dead-letter-stored  its dead letter is stored
//	resend    admit the redelivery of a dead post: key= [id= sub= target= body=]
//	stored    the newest timer is stored, or that of at=
//	check-timer  a scan asks about the timer of the batch at=
//	task      a call starts a subagent: call= agent= prompt= [gen=]
//	started   the delivery hook returns [failed=] [set=key:value] [gen=]
//	limits    change the limits [response=]
//	finished  the response hook returns [metadata=] [again=] [set=key:value] [gen=]
//	compact   request a compaction [instructions=]
//	summary   text= first= [turn=] [before=] | nothing | failed= [gen=]
//	tick      a timer expires [gen= of retry]
//	probe     nonce= seq=
//	abort     abort all unsettled submissions [of= submission of triage/root that began the tree] [trees]
//	tree      ask about a tree: sub= member= key= [join] [cost=] | list [from=]
//	tree-answered  the root of a tree answers [closed | bound=] [dollars] [gen=]
//	drain
//	intrude   another writer= appends at the next offset, unseen
//	advance   advance both clocks
//	crash     replace the machine; the next one writes under the given name [landed]
//	again     the machine has stopped in a running process; the next one takes over its idle writer
//	state     print transcript and settlements; "durable" prints those of the log
//	context   print the context of the newest model call
//	full      print whether streamed text is held back
//	events    print the new durable events, nested; with "new quiet" effects are not printed
//
// covers: channels/94
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				s = newScript()
			}
			s.t, s.d = t, d
			var w strings.Builder
			s.run(&w)
			if w.Len() == 0 {
				return "ok"
			}
			return s.names.replace(w.String())
		})
	})
}

type script struct {
	*rig
	t           *testing.T
	d           *datadriven.TestData
	names       *aliases
	caller      machine.ReplyID
	gen         int                       // generation of the newest model call
	sub         conversation.SubmissionID // submission of the newest model call
	retry       int                       // generation of the newest retry timer
	job         int                       // of the newest summary
	timer       machine.StoreTimer        // the newest stored timer
	post        conversation.PostID       // the newest sent or buried post
	reply       conversation.SubmissionID // of the newest sent reply
	activations int
	shown       int // batches whose events were shown
	quiet       bool
}

func newScript() *script { return &script{rig: newRig(), names: newAliases()} }

func (s *script) run(w *strings.Builder) {
	switch s.d.Cmd {
	case "new":
		s.configure()
	case "limits":
		s.limits.MaxResponse = s.number("response", s.limits.MaxResponse)
	case "crash":
		s.idleWriter = nil
		s.crash()
	case "again":
		if !s.m.Stopped() {
			s.d.Fatalf(s.t, "got a running machine, want a stopped one")
		}
		s.crash()
	case "intrude":
		s.intrude(s.arg("writer"))
	case "advance":
		s.advance()
	case "state":
		s.printState(w)
	case "context":
		printContext(w, s.m.State(), s.sub)
	case "full":
		fmt.Fprintln(w, s.m.Full())
	case "events":
		s.shown = printEvents(w, s.log, s.shown)
	default:
		effects := s.step(s.input())
		for _, e := range effects {
			s.follow(e)
		}
		if !s.quiet {
			printEffects(w, effects)
		}
		for _, e := range effects {
			s.name(e)
		}
	}
}

func (s *script) name(e machine.Effect) {
	var w strings.Builder
	printEffect(&w, e)
	s.names.replace(w.String())
}

// follow updates the defaults of commands without a gen.
func (s *script) follow(e machine.Effect) {
	switch e := e.(type) {
	case machine.CallModel:
		s.gen, s.sub = e.Gen, e.Submission
	case machine.RunTool:
		s.gen = e.Gen
	case machine.FinishResponse:
		s.gen, s.sub = e.Gen, e.Submission
	case machine.StartDelivery:
		s.gen = e.Gen
	case machine.AskTree:
		s.gen = cmp.Or(e.Gen, s.gen)
	case machine.StoreTimer:
		s.timer = e
	case machine.SendReply:
		s.reply = e.Reply.Submission
	case machine.SendPost:
		s.post = e.Post.ID
	case machine.StoreDeadLetter:
		s.post = e.Post.ID
	case machine.Summarize:
		s.job = e.Gen
	case machine.SetTimer:
		if e.Timer == machine.TimerRetry {
			s.retry = e.Gen
		}
	}
}

func (s *script) arg(name string) string {
	var v string
	if a, ok := s.d.Arg(name); ok && len(a.Vals) > 0 {
		v = strings.Join(a.Vals, ", ")
	}
	return s.names.id(v)
}

func (s *script) number(name string, otherwise int) int {
	if !s.d.HasArg(name) {
		return otherwise
	}
	n, err := strconv.Atoi(s.arg(name))
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", name, err)
	}
	return n
}

func (s *script) duration(name string, otherwise time.Duration) time.Duration {
	if !s.d.HasArg(name) {
		return otherwise
	}
	v, err := time.ParseDuration(s.arg(name))
	if err != nil {
		s.d.Fatalf(s.t, "%s: %v", name, err)
	}
	return v
}

func (s *script) configure() {
	s.cfg.Pace = s.duration("pace", s.cfg.Pace)
	s.cfg.IdleAfter = s.duration("idle", s.cfg.IdleAfter)
	s.cfg.MaxWaiting = s.number("waiting", s.cfg.MaxWaiting)
	s.cfg.MaxWaitingBytes = s.number("waitingbytes", s.cfg.MaxWaitingBytes)
	s.cfg.MaxPendingBytes = s.number("pending", s.cfg.MaxPendingBytes)
	s.limits.MaxAttempts = s.number("attempts", s.limits.MaxAttempts)
	s.limits.Timeout = s.duration("timeout", s.limits.Timeout)
	s.limits.Patience = s.duration("patience", s.limits.Patience)
	s.cfg.MaxBatchBytes = s.number("batch", s.cfg.MaxBatchBytes)
	s.limits.MaxResponse = s.number("response", s.limits.MaxResponse)
	s.limits.MaxCallBytes = s.number("callbytes", s.limits.MaxCallBytes)
	s.limits.MaxCalls = s.number("calls", s.limits.MaxCalls)
	s.limits.MaxTurns = s.number("turns", s.limits.MaxTurns)
	s.limits.MaxToolCalls = s.number("toolcalls", s.limits.MaxToolCalls)
	s.limits.MaxTokens = int64(s.number("tokens", int(s.limits.MaxTokens)))
	s.limits.MaxDollars = float64(s.number("dollars", int(s.limits.MaxDollars)))
	s.limits.MaxTree, s.limits.MaxTreeDollars = s.number("tree", 0), float64(s.number("treedollars", 0))
	s.limits.ToolConcurrency = s.number("tools", s.limits.ToolConcurrency)
	s.cfg.CheckpointBatches = s.number("checkpoint", s.cfg.CheckpointBatches)
	s.limits.ResponseFinishedHook, s.limits.DeliveryStartedHook, s.limits.SettledHook = s.d.HasArg("finish"), s.d.HasArg("start"), s.d.HasArg("settled")
	if s.limits.Function = ""; s.d.HasArg("run") {
		s.limits.Function = workflow
	}
	s.limits.AnswerInOrder, s.limits.Notify = s.d.HasArg("in-order"), nil
	if s.d.HasArg("notify") {
		s.limits.Notify = []string{s.arg("notify")}
	}
	s.cfg.Replies = nil
	if s.d.HasArg("replies") {
		target := s.arg("replies")
		s.cfg.Replies = func(to string) bool { return to == target }
	}
	s.quiet = s.d.HasArg("quiet")
	s.crash()
}

// crash replaces the machine. The batch in flight lands or is lost.
func (s *script) crash() {
	if s.d.HasArg("landed") {
		s.mustLand()
	}
	s.activations++
	writer := "w" + strconv.Itoa(s.activations)
	if s.d.HasArg("writer") {
		writer = s.arg("writer")
	}
	s.boot(writer)
}

func (s *script) mustLand() conversation.Offset {
	if s.inflight == nil {
		s.d.Fatalf(s.t, "no append in flight")
	}
	at, err := s.land()
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return at
}

func (s *script) advance() {
	by, err := time.ParseDuration(s.d.CmdArgs[0].Key)
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	s.mono += by
	s.wall += conversation.Time(by.Milliseconds())
}

func (s *script) printState(w *strings.Builder) {
	state := s.m.State()
	if s.d.HasArg("durable") {
		var err error
		if state, err = fold(s.log); err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
	}
	printState(w, state)
}

func (s *script) input() machine.Input {
	switch s.d.Cmd {
	case "open":
		return s.open()
	case "open-failed":
		return machine.OpenFailed{Err: errors.New("bucket unavailable")}
	case "admit":
		return s.admit()
	case "appended":
		return machine.Appended{Offset: s.mustLand()}
	case "lost":
		switch {
		case s.d.HasArg("landed"):
			s.mustLand()
		case s.d.HasArg("writer"):
			s.intrude(s.arg("writer"))
		}
		return machine.AppendLost{Err: errFenced}
	case "listed":
		return machine.Listed{}
	case "tail":
		if s.d.HasArg("failed") {
			return machine.TailRead{Err: errors.New("bucket unavailable")}
		}
		return machine.TailRead{Tail: conversation.Offset(s.number("tail", len(s.log)-1))}
	case "model":
		return s.model()
	case "tool":
		in := machine.ToolDone{
			Gen: s.number("gen", s.gen), Call: conversation.CallID(s.arg("call")), Output: json.RawMessage(s.arg("output")),
			Failed: s.d.HasArg("failed"), ErrorText: s.arg("failed"), Duration: s.duration("took", 0),
			Terminate: s.d.HasArg("terminate"), State: s.state(),
		}
		if n := s.number("bytes", 0); n > 0 { // of output
			in.Output = json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
		}
		if s.d.HasArg("stored") { // number of stored pieces
			in.Stored = &conversation.StoredOutput{Size: 5_000_000, Head: "a", Tail: "z", Pieces: make([]conversation.StoredPiece, s.number("stored", 0))}
		}
		if s.d.HasArg("image") {
			in.Images = []conversation.Attachment{{SHA256: "00ff", MimeType: s.arg("image"), Size: 2}}
		}
		return in
	case "finished":
		in := machine.ResponseFinished{Gen: s.number("gen", s.gen), Again: s.arg("again"), State: s.state()}
		if s.d.HasArg("failed") {
			in.Err = &conversation.SettlementError{Type: conversation.CodeOutputMissing, Message: s.arg("failed")}
		}
		if s.d.HasArg("metadata") {
			in.Metadata = json.RawMessage(s.arg("metadata"))
		}
		return in
	case "tick":
		for timer, name := range timerNames {
			if s.d.HasArg(name) {
				in := machine.Tick{Timer: timer}
				if timer == machine.TimerRetry {
					in.Gen = s.number("gen", s.retry)
				}
				return in
			}
		}
	case "probe":
		s.caller++
		return machine.Probe{To: s.caller, Nonce: s.arg("nonce"), Seq: conversation.Offset(s.number("seq", -1))}
	case "abort":
		s.caller++
		return machine.Abort{To: s.caller, Of: s.treeOf("of"), Trees: s.d.HasArg("trees")}
	case "drain":
		return machine.Drain{}
	}
	return s.loopInput()
}

// loopInput translates commands about trees, steps, subagents, hooks and summaries.
func (s *script) loopInput() machine.Input {
	switch s.d.Cmd {
	case "tree":
		s.caller++
		return machine.Tree{
			To: s.caller, Submission: conversation.SubmissionID(s.arg("sub")), Member: conversation.Address{Agent: "triage", ID: s.arg("member")}, Key: s.arg("key"),
			Join: s.d.HasArg("join"), Cost: float64(s.number("cost", 0)), List: s.d.HasArg("list"), From: s.number("from", 0),
		}
	case "tree-answered":
		return machine.TreeAnswered{Gen: s.number("gen", s.gen), Status: machine.TreeStatus{
			Closed: s.d.HasArg("closed"), Bound: s.arg("bound"), Limit: 1, Spent: 2, Dollars: s.d.HasArg("dollars"),
		}}
	case "step":
		s.caller++
		return machine.StepDone{
			To: s.caller, Gen: s.number("gen", s.gen), Call: conversation.CallID(s.arg("call")),
			Name: s.arg("name"), Output: json.RawMessage(s.arg("output")),
		}
	case "suspended":
		return machine.ToolSuspended{
			Gen: s.number("gen", s.gen), Call: conversation.CallID(s.arg("call")),
			Until: s.wall + conversation.Time(s.duration("in", 0).Milliseconds()),
		}
	case "wait":
		s.caller++
		return machine.WaitFor{
			To: s.caller, Gen: s.number("gen", s.gen), Call: conversation.CallID(s.arg("call")), Name: s.arg("name"), Schema: s.schema(),
			Until: s.wall + conversation.Time(s.duration("in", 0).Milliseconds()), Kept: conversation.SubmissionID(s.arg("kept")), Fit: s.fit(),
		}
	case "signal":
		s.caller++
		a := admission(s.arg("key"), s.arg("body"))
		a.Delivery.Kind, a.Delivery.Type = conversation.KindSignal, conversation.SignalWait
		if s.d.HasArg("name") {
			a.Delivery.Attributes = map[string]string{"name": s.arg("name")}
		}
		return machine.Admit{To: s.caller, Admission: a, Precheck: s.d.HasArg("precheck"), Fit: s.fit()}
	case "stored":
		in := machine.TimerStored{Timer: s.timer}
		if waits, _ := s.m.Waits(); s.d.HasArg("at") {
			at := conversation.Offset(s.number("at", 0))
			in.Timer = machine.StoreTimer{At: at}
			if i := slices.IndexFunc(waits, func(t machine.StoreTimer) bool { return t.At == at }); i >= 0 {
				in.Timer = waits[i]
			}
		}
		return in
	case "check-timer":
		s.caller++
		return machine.CheckTimer{To: s.caller, At: conversation.Offset(s.number("at", int(s.timer.At)))}
	case "task":
		return machine.TaskCalled{
			Gen: s.number("gen", s.gen), Call: conversation.CallID(s.arg("call")), Agent: s.arg("agent"), Prompt: s.arg("prompt"),
		}
	case "started":
		in := machine.DeliveryStarted{Gen: s.number("gen", s.gen), State: s.state()}
		if s.d.HasArg("failed") {
			in.Err = &conversation.SettlementError{Type: conversation.CodeInternal, Message: s.arg("failed")}
		}
		return in
	case "compact":
		s.caller++
		return machine.Compact{To: s.caller, Instructions: s.arg("instructions")}
	case "summary":
		in := machine.Summarized{
			Gen: s.number("gen", s.job), Summary: s.arg("text"), FirstKept: conversation.SubmissionID(s.arg("first")),
			FirstTurn: conversation.TurnID(s.arg("turn")), Before: s.number("before", 0), Nothing: s.d.HasArg("nothing"),
		}
		if s.d.HasArg("failed") {
			in.Err = conversation.Unavailable(time.Second, errors.New(s.arg("failed")))
		}
		return in
	}
	return s.postInput()
}

func (s *script) postInput() machine.Input {
	switch s.d.Cmd {
	case "post":
		s.caller++
		return machine.Post{
			To: s.caller, Gen: s.number("gen", s.gen), Step: s.arg("step"), Output: json.RawMessage(`"post"`),
			Enqueued: conversation.PostEnqueued{Post: conversation.PostID(s.arg("id")), Call: conversation.CallID(s.arg("call")), Target: s.arg("target"), Body: json.RawMessage(s.arg("body"))},
		}
	case "post-tried":
		return machine.PostTried{Post: s.post, Delivered: s.d.HasArg("delivered"), Gone: s.d.HasArg("gone"), Reason: s.arg("failed"), RetryAfter: s.duration("after", 0)}
	case "dead-letter-stored":
		return machine.DeadLetterStored{Post: s.post}
	case "resend":
		s.caller++
		a := admission(s.arg("key"), "")
		a.Delivery.Kind, a.Delivery.Type = conversation.KindSignal, conversation.SignalOutbox
		in := machine.Admit{To: s.caller, Admission: a}
		if s.d.HasArg("id") {
			in.DeadLetter = &conversation.PostEnqueued{Post: conversation.PostID(s.arg("id")), Submission: conversation.SubmissionID(s.arg("sub")), Target: s.arg("target"), Body: json.RawMessage(s.arg("body"))}
		}
		return in
	case "reply-sent":
		return machine.ReplySent{Submission: s.reply}
	}
	s.d.Fatalf(s.t, "unknown command")
	return nil
}

func (s *script) schema() json.RawMessage { return json.RawMessage(cmp.Or(s.arg("schema"), "true")) }

// fit returns the validation result of a signal, nil if it was not validated.
func (s *script) fit() *machine.Fit {
	switch {
	case s.d.HasArg("unfit"):
		return &machine.Fit{Schema: s.schema(), Unfit: conversation.Errorf(conversation.CodeInvalidRequest, "schema mismatch")}
	case s.d.HasArg("value"):
		return &machine.Fit{Schema: s.schema(), Value: json.RawMessage(s.arg("value"))}
	}
	return nil
}

// state parses the author's state writes: set=key:value.
func (s *script) state() []machine.StateWrite {
	key, value, ok := strings.Cut(s.arg("set"), ":")
	if !ok {
		return nil
	}
	return []machine.StateWrite{{Key: key, Value: json.RawMessage(value)}}
}

// open reads the log after adding the batches of the input: one JSON object per line, with the writer
// and the records.
func (s *script) open() machine.Input {
	for line := range strings.Lines(s.d.Input) {
		var v struct {
			Writer  string
			Records []json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		var lines []byte
		for _, r := range v.Records {
			lines = append(append(lines, r...), '\n')
		}
		records, err := conversation.DecodeRecords(lines)
		if err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		s.log = append(s.log, entry{writer: v.Writer, batch: conversation.Batch{Offset: conversation.Offset(len(s.log)), Records: records}, built: s.wall})
	}
	read := s.opened
	if s.d.HasArg("checkpoint") {
		read = s.resumed
	}
	in, err := read()
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
	return in
}

func (s *script) admit() machine.Input {
	s.caller++
	a := admission(s.arg("key"), s.arg("body"))
	if s.d.HasArg("run") {
		a = runOf(s.arg("body"))
	}
	if s.d.HasArg("agent") {
		a.Address.Agent = s.arg("agent")
	}
	if s.d.HasArg("data") {
		a.InitialData = json.RawMessage(s.arg("data"))
	}
	if s.d.HasArg("file") {
		a.Delivery.Attachments = []conversation.Attachment{{SHA256: "00ff", MimeType: s.arg("file"), Size: 2}}
	}
	if s.d.HasArg("asked") {
		a.ReplyTo = &asker
	}
	if s.d.HasArg("keep") {
		keep, err := time.ParseDuration(s.arg("keep"))
		if err != nil {
			s.d.Fatalf(s.t, "%v", err)
		}
		a.KeepKey = keep
	}
	a.Notify, a.Tree = s.arg("notify"), s.treeOf("tree")
	a.Channel, a.ReplyAddress, a.Dispatched = s.arg("channel"), s.arg("reply-address"), s.d.HasArg("dispatched")
	if s.d.HasArg("sender") {
		a.Sender = &conversation.Sender{Address: a.Address.Reach(), Submission: conversation.SubmissionID(s.arg("sender"))}
	}
	a.Condition = conversation.Condition{
		Absent: s.d.HasArg("absent"), Set: s.d.HasArg("uid"), UID: conversation.UID(s.arg("uid")),
	}
	return machine.Admit{To: s.caller, Admission: a, Precheck: s.d.HasArg("precheck")}
}

// refusal parses a vendor's refusal of images: how many go first, their ids, and optionally a
// fallback.
func refusal(words string) machine.ModelEvent {
	e := machine.ModelEvent{Kind: machine.ModelFailed, Err: &conversation.SettlementError{Type: conversation.CodeModelFailed, Message: "refused"}}
	for i, word := range strings.Fields(words) {
		switch {
		case i == 0:
			e.First, _ = strconv.Atoi(word)
		case word == "fallback":
			e.Fallback = true
		default:
			e.Images = append(e.Images, conversation.AttachmentID(word))
		}
	}
	return e
}

// model parses events, one per line:
//
// - text, reasoning, signature and signed-text, with the rest of the line
// - signed-call, with a name and a signature
// - call, durable and data, with a name and JSON; metadata, with JSON
// - done and full, with a stop reason
// - failed, overflow and fallback, with a message
// - passing and passing-next, with a duration
// - away, for a model that could not be called
func (s *script) model() machine.Input {
	in := machine.Model{Gen: s.number("gen", s.gen), Name: cmp.Or(s.arg("name"), "demo/one")}
	if s.d.HasArg("passed") {
		in.Passed = &machine.Replaced{Name: s.arg("passed"), Why: &conversation.SettlementError{Type: conversation.CodeModelFailed, Message: "no credit"}}
	}
	for line := range strings.Lines(s.d.Input) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		e := machine.ModelEvent{Text: rest}
		switch kind {
		case "text":
			e.Kind = machine.ModelText
		case "reasoning":
			e.Kind = machine.ModelReasoning
		case "signature":
			e.Kind, e.Part = machine.ModelSignature, conversation.PartReasoning
		case "signed-text":
			e.Kind, e.Part = machine.ModelSignature, conversation.PartText
		case "signed-call":
			name, signature, _ := strings.Cut(rest, " ")
			e = machine.ModelEvent{Kind: machine.ModelCall, ProviderCall: "p-" + name, Name: name, Input: json.RawMessage(`{}`), Signature: signature}
		case "call", "durable":
			name, input, _ := strings.Cut(rest, " ")
			e = machine.ModelEvent{Kind: machine.ModelCall, Durable: kind == "durable", ProviderCall: "p-" + name, Name: name, Input: json.RawMessage(input)}
		case "data":
			name, data, _ := strings.Cut(rest, " ")
			e = machine.ModelEvent{Kind: machine.ModelData, Name: name, Input: json.RawMessage(data)}
		case "metadata":
			e = machine.ModelEvent{Kind: machine.ModelMetadata, Input: json.RawMessage(rest)}
		case "paid": // a model call with this usage in tokens and dollars
			n, err := strconv.Atoi(rest)
			if err != nil {
				s.d.Fatalf(s.t, "%v", err)
			}
			e = machine.ModelEvent{Kind: machine.ModelDone, StopReason: "stop", Usage: conversation.Usage{Total: int64(n)}}
			e.Facts.Price = &conversation.Price{Total: float64(n)}
		case "done", "full":
			e = machine.ModelEvent{Kind: machine.ModelDone, StopReason: rest, Full: kind == "full"}
		case "reminds": // done, with a reminder
			e = machine.ModelEvent{Kind: machine.ModelDone, StopReason: "stop", Reminder: rest}
		case "failed", "overflow", "fallback":
			e = machine.ModelEvent{Kind: machine.ModelFailed, Overflow: kind == "overflow", Fallback: kind == "fallback", Err: &conversation.SettlementError{
				Type: conversation.CodeModelFailed, Message: rest,
			}}
		case "images": // images refused: how many go first, and their ids
			e = refusal(rest)
		case "too-many-calls": // the reply was cut off
			e = machine.ModelEvent{Kind: machine.ModelFailed, TooManyCalls: true, Err: &conversation.SettlementError{
				Type: conversation.CodeOutputTooLong, Message: "too many calls",
			}}
		case "away": // no model could be called
			e = machine.ModelEvent{Kind: machine.ModelFailed, Unasked: true, Retry: true, Fallback: true, Err: &conversation.SettlementError{
				Type: conversation.CodeModelFailed, Message: "away",
			}}
		case "passing", "passing-next": // a transient failure; rest is the retry hint
			after, err := time.ParseDuration(rest)
			if err != nil {
				s.d.Fatalf(s.t, "%v", err)
			}
			e = machine.ModelEvent{Kind: machine.ModelFailed, Retry: true, RetryAfter: after, Fallback: kind == "passing-next", Err: &conversation.SettlementError{
				Type: conversation.CodeModelFailed, Message: "passing",
			}}
		default:
			s.d.Fatalf(s.t, "unknown event %q", line)
		}
		in.Events = append(in.Events, e)
	}
	return in
}

// treeOf returns the tree of triage/root that the argument names, or nil.
func (s *script) treeOf(name string) *conversation.TreeRef {
	if !s.d.HasArg(name) {
		return nil
	}
	return &conversation.TreeRef{Root: conversation.Address{Agent: "triage", ID: "root"}, Submission: conversation.SubmissionID(s.arg(name))}
}
