package machine_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

var mintedID = regexp.MustCompile(`(sub|post|inst|conv|msg|turn|call|att|op|task)_[0-9A-HJKMNP-TV-Z]{26}`)

// aliases gives minted ids short names in order of appearance.
type aliases struct {
	short map[string]string
	long  map[string]string
	count map[string]int
}

func newAliases() *aliases {
	return &aliases{short: map[string]string{}, long: map[string]string{}, count: map[string]int{}}
}

func (a *aliases) replace(s string) string {
	return mintedID.ReplaceAllStringFunc(s, func(id string) string {
		name, ok := a.short[id]
		if !ok {
			prefix, _, _ := strings.Cut(id, "_")
			a.count[prefix]++
			name = prefix + strconv.Itoa(a.count[prefix])
			a.short[id], a.long[name] = name, id
		}
		return name
	})
}

// id returns the short name of a minted id; other names stay unchanged.
func (a *aliases) id(name string) string {
	if long, ok := a.long[name]; ok {
		return long
	}
	return name
}

func printEffects(w *strings.Builder, effects []machine.Effect) {
	for _, e := range effects {
		printEffect(w, e)
	}
}

func printEffect(w *strings.Builder, e machine.Effect) {
	switch e := e.(type) {
	case machine.Append:
		fmt.Fprintf(w, "append %d\n", int64(e.Batch.Offset))
		printRecords(w, e.Batch.Records)
	case machine.List:
		fmt.Fprintf(w, "list seq=%d\n", int64(e.Seq))
	case machine.ReadTail:
		fmt.Fprintf(w, "read-tail after=%d\n", int64(e.After))
	case machine.Unlist:
		fmt.Fprintln(w, "unlist")
	case machine.Reply:
		fmt.Fprintf(w, "reply %d: %s\n", e.To, answerText(e.Value))
	case machine.CallModel:
		fmt.Fprintf(w, "call-model gen=%d %s %s attempt=%d number=%d", e.Gen, e.Submission, e.Turn, e.Attempt, e.Number)
		if len(e.Avoid) > 0 {
			fmt.Fprintf(w, " avoid=%s", strings.Join(e.Avoid, ","))
		}
		if len(e.Without) > 0 {
			fmt.Fprintf(w, " without=%s", e.Without)
		}
		fmt.Fprintln(w)
	case machine.CallUnrecorded:
		fmt.Fprintf(w, "call-unrecorded gen=%d %s retries=%d repeated=%t\n", e.Gen, e.Reason, e.Retries, e.Repeated)
	case machine.RunTool:
		fmt.Fprintf(w, "run-tool gen=%d %s %s %s %s %s", e.Gen, e.Submission, e.Turn, e.Call, e.Name, e.Input)
		for _, s := range e.Recorded {
			fmt.Fprintf(w, " %s=%s", s.Name, s.Output)
		}
		for _, ended := range e.Ended {
			fmt.Fprintf(w, " %s:%s=%s", ended.Name, ended.Ended, ended.Value)
		}
		if e.Room != conversation.MaxPayloadBytes {
			fmt.Fprintf(w, " room=%d", e.Room)
		}
		fmt.Fprintln(w)
	case machine.AskTree:
		fmt.Fprintf(w, "ask-tree gen=%d %s/%s %s key=%s cost=%v\n", e.Gen, e.Tree.Root.Agent, e.Tree.Root.ID, e.Tree.Submission, e.Key, e.Cost)
	case machine.StoreOutput:
		fmt.Fprintf(w, "store-output gen=%d %s %s of %d bytes room=%d\n", e.Done.Gen, e.Submission, e.Done.Call, len(e.Done.Output), e.Room)
	case machine.StoreTimer:
		fmt.Fprintf(w, "store-timer %d until=%s\n", int64(e.At), e.Until)
	case machine.SendReply:
		fmt.Fprintf(w, "send-reply %s/%s %q %s %s %q\n", e.To.Address.Agent, e.To.Address.ID, e.To.Name, e.Reply.Submission, e.Reply.Outcome, e.Reply.Text)
	case machine.SendPost:
		fmt.Fprintf(w, "send-post %s to %s %s\n", e.Post.ID, e.Post.Target, e.Post.Body)
	case machine.StoreDeadLetter:
		fmt.Fprintf(w, "bury-post %s to %s attempts=%d %q\n", e.Post.ID, e.Post.Target, e.Attempts, e.Reason)
	case machine.StartDelivery:
		fmt.Fprintf(w, "start-delivery gen=%d %s attempt=%d\n", e.Gen, e.Submission, e.Attempt)
	case machine.ShowSettlement:
		fmt.Fprintf(w, "show-settlement %s %s\n", e.Submission.ID, e.Outcome)
	case machine.Summarize:
		fmt.Fprintf(w, "summarize gen=%d %s%s%s\n", e.Gen, e.Reason, suffix(" ", string(e.Submission)), suffix(": ", e.Instructions))
	case machine.FinishResponse:
		fmt.Fprintf(w, "finish-response gen=%d %s %s attempt=%d number=%d\n", e.Gen, e.Submission, e.Turn, e.Attempt, e.Number)
	case machine.Checkpoint:
		closed := 0
		for _, p := range e.Closed {
			closed += p.Counts.Messages
		}
		fmt.Fprintf(w, "checkpoint %d claims=%d closed=%d\n", int64(e.At), len(e.Claims), closed)
	case machine.Cancel:
		fmt.Fprintf(w, "cancel gen=%d\n", e.Gen)
	case machine.SetTimer:
		fmt.Fprintf(w, "set-timer %s %s", timerNames[e.Timer], e.After)
		if e.Gen != 0 {
			fmt.Fprintf(w, " gen=%d", e.Gen)
		}
		fmt.Fprintln(w)
	case machine.Stop:
		fmt.Fprintf(w, "stop %s%s\n", e.Reason, suffix(": ", e.Err))
	}
}

var timerNames = map[machine.Timer]string{
	machine.TimerPace: "pace", machine.TimerIdle: "idle", machine.TimerBudget: "budget",
	machine.TimerRetry: "retry", machine.TimerDue: "due",
}

func listText[T any](name string, all []T) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%s%v", name, all)
}

func treeText(v machine.TreeStatus) string {
	s := "open"
	switch {
	case v.Closed:
		s = "closed"
	case v.Bound != "":
		s = fmt.Sprintf("%s=%v spent=%v", v.Bound, v.Limit, v.Spent)
	}
	if v.Dollars {
		s += " dollars"
	}
	for _, m := range v.Members {
		s += fmt.Sprintf(" %s/%s:%s", m.Address.Agent, m.Address.ID, m.Key)
	}
	if v.More {
		s += " more"
	}
	return s
}

func suffix(sep string, v any) string {
	if s := fmt.Sprint(v); v != nil && s != "" {
		return sep + s
	}
	return ""
}

func answerText(v machine.Answer) string {
	switch v := v.(type) {
	case machine.Admitted:
		s := fmt.Sprintf("admitted %s %s offset=%d", v.Receipt.SubmissionID, v.Receipt.UID, int64(v.Receipt.Offset))
		if v.Receipt.Deduplicated {
			s += " deduplicated"
		}
		return s
	case machine.Refused:
		s := "refused " + string(v.Err.Code)
		if v.Err.RetryAfter > 0 {
			s += " retry-after=" + v.Err.RetryAfter.String()
		}
		if v.Err.Meta != nil {
			s += fmt.Sprintf(" %v", v.Err.Meta)
		}
		return s + suffix(": ", v.Err.Err)
	case machine.Clear:
		return "clear"
	case machine.Aborted:
		return fmt.Sprintf("aborted=%v", v.Any) + listText(" trees=", v.Trees) + listText(" part-of=", v.PartOf)
	case machine.TreeStatus:
		return treeText(v)
	case machine.Moved:
		if v.Untouched {
			return "moved, untouched"
		}
		return "moved"
	case machine.Compacted:
		return fmt.Sprintf("compacted=%v", v.Any)
	case machine.StepKept, machine.PostKept:
		return "kept"
	case machine.PostFull:
		return "post-full"
	case machine.WaitOver:
		if v.TimedOut {
			return "timed out"
		}
		return fmt.Sprintf("signal %s", v.Value)
	case machine.WaitOpen:
		return fmt.Sprintf("waits until=%s", v.Until)
	case machine.WaitValidate:
		return fmt.Sprintf("validate %s %q", v.Kept, v.Body)
	case machine.TimerChecked:
		switch {
		case v.Unknown:
			return "timer-unknown"
		case v.Early:
			return "early"
		}
		return "timer-over"
	case machine.Probed:
		switch {
		case v.Unknown:
			return "unknown"
		case v.Held:
			return "held"
		}
		return "settled"
	}
	return fmt.Sprintf("%#v", v)
}

func printRecords(w *strings.Builder, records []conversation.Record) {
	if len(records) == 0 {
		fmt.Fprintln(w, "  (claim)")
	}
	for _, r := range records {
		fmt.Fprintf(w, "  %s %s\n", r.Type(), recordText(r))
	}
}

func recordText(r conversation.Record) string {
	switch r := r.(type) {
	case *conversation.ConversationCreated:
		return fmt.Sprintf("%s/%s %s %s%s", r.Agent, r.ID, r.UID, r.ConversationID, suffix(" data=", string(r.InitialData)))
	case *conversation.SubmissionAdmitted:
		s := fmt.Sprintf("%s %s key=%s %q", r.Submission, r.Message, r.Key, r.Delivery.Body)
		for _, a := range r.Delivery.Attachments {
			s += fmt.Sprintf(" %s=%s", a.ID, a.MimeType)
		}
		if r.Tree != nil {
			s += fmt.Sprintf(" tree=%s/%s:%s", r.Tree.Root.Agent, r.Tree.Root.ID, r.Tree.Submission)
		}
		return s
	case *conversation.AbortRequested:
		if r.Trees {
			return fmt.Sprintf("%s trees", r.Submissions)
		}
		return fmt.Sprint(r.Submissions)
	case *conversation.TreeCounted:
		return fmt.Sprintf("%s %s/%s:%s joined=%t cost=%v used=%d/%d $%v/%v", r.Submission, r.Member.Agent, r.Member.ID, r.Key, r.Joined, r.Cost, r.Submissions, r.MaxSubmissions, r.Dollars, r.MaxDollars)
	case *conversation.AttemptStarted:
		return fmt.Sprintf("%s attempt=%d %s", r.Submission, r.Attempt, r.Writer)
	case *conversation.AttemptReleased:
		return fmt.Sprintf("%s attempt=%d %s", r.Submission, r.Attempt, r.Reason)
	case *conversation.ResponseStarted:
		return childText(r.Child) + fmt.Sprintf("%s %s %s %s%s", r.Message, r.Submission, r.Turn, r.Model, suffix(" metadata=", string(r.Metadata)))
	case *conversation.DataWritten:
		return fmt.Sprintf("%s %s %s", r.Message, r.Name, r.Data)
	case *conversation.MetadataMerged:
		return fmt.Sprintf("%s %s", r.Message, r.Metadata)
	case *conversation.Delta:
		return childText(r.Child) + fmt.Sprintf("%s %s %q", r.Message, r.Kind, r.Text)
	case *conversation.PartDone:
		return fmt.Sprintf("%s signature=%s", r.Message, r.Signature)
	case *conversation.PartSigned:
		return fmt.Sprintf("%s %s%s signature=%s", r.Message, r.Kind, r.Call, r.Signature)
	case *conversation.ImagesRefused:
		return fmt.Sprintf("%s %s", r.Attachments, r.Model)
	case *conversation.OutputStored:
		return fmt.Sprintf("%s%s size=%d pieces=%d", childText(r.Child), r.Call, r.Size, len(r.Pieces))
	case *conversation.ToolCalled:
		s := childText(r.Child) + fmt.Sprintf("%s %s %s %s", r.Message, r.Call, r.Name, r.Input)
		if r.Durable {
			s += " durable"
		}
		return s
	case *conversation.ToolSettled:
		return outcomeText(r)
	case *conversation.StepCompleted:
		return childText(r.Child) + fmt.Sprintf("%s %s %s%s", r.Message, r.Turn, r.StopReason, elapsedText(r.ElapsedMs))
	case *conversation.StepDropped:
		return childText(r.Child) + fmt.Sprintf("%s %s%s", r.Message, r.Turn, suffix(" ", r.Reason))
	case *conversation.StateWritten:
		return fmt.Sprintf("%s=%s", r.Key, r.Value)
	case *conversation.StepRecorded:
		return fmt.Sprintf("%s %s=%s", r.Call, r.Name, r.Output)
	case *conversation.Suspended:
		return fmt.Sprintf("%s until=%s %s%s", r.Submission, r.Until, r.Reason, elapsedText(r.ElapsedMs))
	case *conversation.RetryScheduled:
		return childText(r.Child) + fmt.Sprintf("%s %s %s until=%s rounds=%d blind=%d waited=%dms", r.Submission, r.Model, r.Reason, r.Until, r.Rounds, r.RoundsWithoutDelay, r.WaitedMs)
	case *conversation.HookDone:
		return fmt.Sprintf("%s %s", r.Submission, r.Hook)
	case *conversation.ChildStarted:
		return fmt.Sprintf("%s %s %s %s %q", r.Child, r.Submission, r.Call, r.Agent, r.Prompt)
	case *conversation.ChildSettled:
		return fmt.Sprintf("%s %s", r.Child, r.Outcome)
	case *conversation.Compacted:
		return childText(r.Child) + fmt.Sprintf("%s %q first=%s%s", r.Reason, r.Summary, r.FirstKept, suffix(" ", string(r.FirstTurn)))
	case *conversation.Advisory:
		return childText(r.Child) + fmt.Sprintf("%s %s %s %q%s", r.Message, r.Submission, r.Display, r.Text, attributesText(r.Attributes))
	case *conversation.SubmissionSettled:
		s := fmt.Sprintf("%s %s%s", r.Submission, r.Outcome, elapsedText(r.ElapsedMs))
		if r.Error != nil {
			s += fmt.Sprintf(" %s %v", r.Error.Type, r.Error.Meta)
		}
		return s
	}
	return waitText(r)
}

func waitText(r conversation.Record) string {
	switch r := r.(type) {
	case *conversation.WaitStarted:
		return childText(r.Child) + fmt.Sprintf("%s %q until=%s%s", r.Call, r.Name, r.Until, suffix(" dropped=", string(r.Dropped)))
	case *conversation.WaitEnded:
		return childText(r.Child) + fmt.Sprintf("%s %q %s%s%s", r.Call, r.Name, r.Reason, suffix(" ", string(r.Signal)), suffix(" value=", string(r.Value)))
	case *conversation.SignalKept:
		return fmt.Sprintf("%s %q %q", r.Submission, r.Name, r.Body)
	case *conversation.Overtook:
		return string(r.Submission)
	case *conversation.KeyKept:
		return fmt.Sprintf("%s until=%s", r.Submission, r.Until)
	case *conversation.RunStarted:
		return string(r.Submission)
	case *conversation.ReplySent:
		return string(r.Submission)
	case *conversation.NoticeAsked:
		return fmt.Sprintf("%s to %s", r.Submission, r.Target)
	case *conversation.ReplyAddressed:
		return fmt.Sprintf("%s %s %s", r.Submission, r.Channel, r.Address)
	case *conversation.PostEnqueued:
		return fmt.Sprintf("%s %s to %s %s%s", r.Post, r.Submission, r.Target, r.Body, suffix(" at ", r.ReplyAddress))
	case *conversation.PostDeferred:
		return fmt.Sprintf("%s attempts=%d until=%s %q", r.Post, r.Attempts, r.Until, r.Reason)
	case *conversation.PostDone:
		return fmt.Sprintf("%s %s attempts=%d %q", r.Post, r.End, r.Attempts, r.Reason)
	case *conversation.ReplyPending:
		return fmt.Sprintf("%s to %s/%s %q", r.Submission, r.To.Address.Agent, r.To.Address.ID, r.To.Name)
	}
	return fmt.Sprintf("%+v", r)
}

// longOutput is the size in bytes from which a transcript abbreviates an output.
const longOutput = 10_000

func outcomeText(r *conversation.ToolSettled) string {
	s := childText(r.Child) + fmt.Sprintf("%s output=%s", r.Call, r.Output)
	if len(r.Output) > longOutput {
		s = childText(r.Child) + fmt.Sprintf("%s output of %d bytes", r.Call, len(r.Output))
	}
	if r.Failed {
		s = childText(r.Child) + fmt.Sprintf("%s failed: %s", r.Call, r.ErrorText)
	}
	for _, a := range r.Attachments {
		s += fmt.Sprintf(" %s=%s", a.ID, a.MimeType)
	}
	if r.Terminate {
		s += " terminate"
	}
	if r.DurationMs != nil {
		s += fmt.Sprintf(" took=%dms", *r.DurationMs)
	}
	return s + elapsedText(r.ElapsedMs)
}

func childText(id conversation.ConversationID) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf("[%s] ", id)
}

func elapsedText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf(" elapsed=%dms", ms)
}

func attributesText(m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	return fmt.Sprintf(" %v", m) // fmt sorts the keys
}

func printState(w *strings.Builder, s *conversation.State) {
	snap := s.Snapshot()
	for _, m := range snap.Messages {
		fmt.Fprintf(w, "%s %s %s", m.ID, m.Role, m.SubmissionID)
		if m.Display != conversation.DisplayVisible {
			fmt.Fprintf(w, " %s", m.Display)
		}
		if len(m.Metadata) > 0 {
			fmt.Fprintf(w, " %s", m.Metadata)
		}
		fmt.Fprintln(w)
		for _, p := range m.Parts {
			fmt.Fprintf(w, "  %s %s", p.Type, p.State)
			switch {
			case p.Text != nil:
				fmt.Fprintf(w, " %q", *p.Text)
			case p.ErrorText != nil:
				fmt.Fprintf(w, " %s %s %s error=%q", p.ToolCallID, p.ToolName, p.Input, *p.ErrorText)
			case p.ToolCallID != "":
				fmt.Fprintf(w, " %s %s %s%s", p.ToolCallID, p.ToolName, p.Input, suffix(" output=", string(p.Output)))
			case p.Data != nil:
				fmt.Fprintf(w, " %s", p.Data)
			}
			fmt.Fprintln(w)
		}
	}
	for _, st := range snap.Settlements {
		fmt.Fprintf(w, "settled %s %s", st.SubmissionID, st.Outcome)
		if st.Error != nil {
			fmt.Fprintf(w, " %s", st.Error.Type)
		}
		fmt.Fprintln(w)
	}
}

func printContext(w *strings.Builder, s *conversation.State, id conversation.SubmissionID) {
	for _, x := range s.Exchanges(id) {
		fmt.Fprintf(w, "%s %s %q\n", x.ID, x.Delivery.Kind, x.Delivery.Body)
		for _, st := range x.Turns() {
			if st.Note != "" {
				fmt.Fprintf(w, "  note %q\n", st.Note)
				continue
			}
			fmt.Fprintf(w, "  %s %s\n", st.ID, st.StopReason)
			for _, p := range st.Parts {
				switch {
				case p.Tool == nil:
					fmt.Fprintf(w, "    %s %q%s\n", p.Kind, p.Text, suffix(" signature=", p.Signature))
				case p.Tool.Failed:
					fmt.Fprintf(w, "    %s %s %s failed: %s%s\n", p.Tool.Call, p.Tool.Name, p.Tool.Input, p.Tool.ErrorText, suffix(" signature=", p.Signature))
				default:
					fmt.Fprintf(w, "    %s %s %s output=%s%s\n", p.Tool.Call, p.Tool.Name, p.Tool.Input, p.Tool.Output, suffix(" signature=", p.Signature))
				}
			}
		}
	}
}
