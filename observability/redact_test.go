package observability_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// everyRecord returns one of every record, in an order that gives live events.
func everyRecord() []conversation.Record {
	return []conversation.Record{
		&conversation.ConversationCreated{}, &conversation.SubmissionAdmitted{}, &conversation.AttemptStarted{},
		&conversation.AttemptReleased{}, &conversation.ChildStarted{}, &conversation.ResponseStarted{}, &conversation.Delta{},
		&conversation.PartDone{}, &conversation.ToolCalled{}, &conversation.StepCompleted{}, &conversation.ToolSettled{},
		&conversation.WaitStarted{}, &conversation.WaitEnded{}, &conversation.SignalKept{},
		&conversation.PostEnqueued{}, &conversation.PostDeferred{}, &conversation.PostDone{},
		&conversation.DataWritten{}, &conversation.MetadataMerged{}, &conversation.Advisory{}, &conversation.AbortRequested{},
		&conversation.StepDropped{}, &conversation.Compacted{}, &conversation.StateWritten{}, &conversation.StepRecorded{},
		&conversation.Suspended{}, &conversation.HookDone{}, &conversation.ChildSettled{}, &conversation.SubmissionSettled{},
		&conversation.ConversationDeleted{},
	}
}

// fill sets every field of a value, and every text to its own path.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("secret-" + path + ";")
		if path == "Delta.Kind" {
			v.SetString(string(conversation.PartReasoning))
		}
		if strings.HasSuffix(path, ".Child") || strings.HasSuffix(path, ".Call") {
			v.SetString("x") // Related records share this value.
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"secret-` + path + `;":1}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("secret-"+path+";"), reflect.ValueOf("x").Convert(v.Type().Elem()))
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	}
}

// TestEventsContainNoContent fills every field of every record. Without content, events contain
// only the listed texts: ids, names, and texts of the runtime.
func TestEventsContainNoContent(t *testing.T) {
	want := []string{
		"AttemptStarted.Trace.Parent", "AttemptStarted.Trace.State",
		"ChildSettled.Agent", "ChildSettled.Origin.Parent", "ChildSettled.Origin.Root", "ChildSettled.Outcome", "ChildSettled.Turn",
		"ChildSettled.Unheard.Facts.API", "ChildSettled.Unheard.Facts.Provider", "ChildSettled.Unheard.Facts.Server",
		"ChildSettled.Unheard.Facts.Thinking", "ChildSettled.Unheard.Model", "ChildSettled.Unheard.Turn",
		"ChildStarted.Agent", "ChildStarted.Origin.Parent", "ChildStarted.Origin.Root", "ChildStarted.Turn",
		"Compacted.Facts.API", "Compacted.Facts.Provider", "Compacted.Facts.ResponseID", "Compacted.Facts.ResponseModel",
		"Compacted.Facts.Server", "Compacted.Facts.Thinking", "Compacted.Model", "Compacted.Origin.Parent", "Compacted.Origin.Root",
		"Compacted.Reason", "Compacted.Turn",
		"ConversationCreated.Agent", "ConversationCreated.ID",
		"ResponseStarted.Message", "ResponseStarted.Model", "ResponseStarted.Origin.Parent", "ResponseStarted.Origin.Root", "ResponseStarted.Turn",
		"StepCompleted.Calls.Name", "StepCompleted.Facts.API", "StepCompleted.Facts.Provider", "StepCompleted.Facts.ResponseID",
		"StepCompleted.Facts.ResponseModel", "StepCompleted.Facts.Server", "StepCompleted.Facts.Thinking", "StepCompleted.Model",
		"StepCompleted.Origin.Parent", "StepCompleted.Origin.Root", "StepCompleted.StopReason", "StepCompleted.Turn",
		"StepDropped.Facts.API", "StepDropped.Facts.Provider", "StepDropped.Facts.Server", "StepDropped.Facts.Thinking",
		"StepDropped.Model", "StepDropped.Origin.Parent", "StepDropped.Origin.Root", "StepDropped.Reason", "StepDropped.Turn",
		"SubmissionAdmitted.Delivery.Kind", "SubmissionAdmitted.Submission", "SubmissionAdmitted.Trace.Parent", "SubmissionAdmitted.Trace.State",
		"SubmissionSettled.Error.Message", "SubmissionSettled.Error.Meta", "SubmissionSettled.Error.Type", "SubmissionSettled.Outcome",
		"SubmissionSettled.Submission", "SubmissionSettled.Unheard.Facts.API", "SubmissionSettled.Unheard.Facts.Provider",
		"SubmissionSettled.Unheard.Facts.Server", "SubmissionSettled.Unheard.Facts.Thinking", "SubmissionSettled.Unheard.Model",
		"SubmissionSettled.Unheard.Turn",
		"ToolSettled.Name", "ToolSettled.Origin.Parent", "ToolSettled.Origin.Root", "ToolSettled.Turn", "ToolSettled.Waits.Name",
		"WaitEnded.Name", "WaitEnded.Origin.Parent", "WaitEnded.Origin.Root", "WaitEnded.Reason", "WaitEnded.Signal", "WaitEnded.Tool", "WaitEnded.Turn",
		"WaitStarted.Name", "WaitStarted.Origin.Parent", "WaitStarted.Origin.Root", "WaitStarted.Tool", "WaitStarted.Turn",
		"AttemptReleased.Submission", "AttemptStarted.Submission", "Suspended.Submission",
		"PostDeferred.Post", "PostDeferred.Submission", "PostDeferred.Target", "PostDone.End", "PostDone.Post", "PostDone.Submission", "PostDone.Target",
	}
	slices.Sort(want)
	shown := map[bool]map[string]bool{}
	for _, content := range []bool{false, true} {
		shown[content] = map[string]bool{}
		opts := observability.ProjectOptions{Content: content}
		stream := observability.Stream{Options: opts}
		for _, r := range everyRecord() {
			v := reflect.ValueOf(r).Elem()
			fill(v, v.Type().Name())
			b := conversation.Batch{Records: []conversation.Record{r}}
			if c, ok := r.(*conversation.ToolCalled); ok { // Arguments appear with the next record.
				b.Records = append(b.Records, &conversation.StepCompleted{Calls: []conversation.CallName{{Call: c.Call}}})
			}
			for _, e := range append(observability.Project(observability.Source{}, b, &opts), stream.Batch(conversation.Batch{Records: []conversation.Record{r}}, 1)...) {
				line, err := e.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(`secret-([\w.]+);`).FindAllStringSubmatch(string(line), -1) {
					shown[content][m[1]] = true
				}
			}
		}
	}
	var without, with []string
	for path := range shown[false] {
		without = append(without, path)
	}
	for path := range shown[true] {
		if !shown[false][path] {
			with = append(with, path)
		}
	}
	slices.Sort(without)
	slices.Sort(with)
	if diff := cmp.Diff(want, without); diff != "" {
		t.Errorf("shown without content (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ChildStarted.Prompt", "Delta.Text", "SubmissionAdmitted.Delivery.Body", "ToolCalled.Input", "ToolSettled.ErrorText",
	}, with); diff != "" {
		t.Errorf("shown with content alone (-want +got):\n%s", diff)
	}
}
