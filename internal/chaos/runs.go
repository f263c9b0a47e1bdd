package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/schedule"
)

const (
	// jobName is the one workflow.
	jobName = "job"
	// runName begins the name under which a call waits for a run.
	runName = "run "
	// jobSteps is how many steps a run takes, and jobFails what the function of some returns.
	jobSteps = 3
	jobFails = "the job went wrong"
)

// job is what a run is given: what it is for, and how many runs it starts below it.
type job struct {
	For   string `json:"for"`
	Below int    `json:"below"`
}

// newJob makes the workflow. Each execution of a step returns another number, so that a result tells which ones it has.
func newJob(w *world) *agent.Workflow[job, string] {
	var flow *agent.Workflow[job, string]
	flow = agent.NewWorkflow(jobName, func(ctx context.Context, in job) (string, error) {
		if err := begin(ctx); err != nil {
			return "", err
		}
		var started []*agent.Started[string]
		for n := range in.Below {
			s, err := flow.Start(ctx, fmt.Sprint(runName, n), job{fmt.Sprint(in.For, "/", n), 0}, nil)
			if err != nil {
				return "", err
			}
			started = append(started, s)
		}
		out := in.For
		for n := range jobSteps {
			took, err := agent.Step(ctx, fmt.Sprint("step ", n), func(ctx context.Context) (int, error) { return w.works(ctx, in.For, n) })
			if err != nil {
				return "", err
			}
			out += fmt.Sprint(" ", took)
		}
		if schedule.Draw(w.seed, "sleeps", in.For)%3 == 0 {
			if err := agent.Sleep(ctx, "sleep", shortWait); err != nil {
				return "", err
			}
		}
		for _, s := range started {
			below, err := s.Wait(ctx)
			var settled *conversation.SettledError
			switch {
			case errors.As(err, &settled):
				below = string(settled.Outcome)
			case err != nil:
				return "", err
			}
			out += " (" + below + ")"
		}
		if w.jobFails(in.For) {
			return "", errors.New(jobFails)
		}
		return out, nil
	}, &agent.WorkflowOptions{Durability: agent.Durability{MaxAttempts: maxAttempts}})
	return flow
}

func (w *world) jobFails(what string) bool { return schedule.Draw(w.seed, "job fails", what)%5 == 0 }

// works is what a step does: it takes its time, and counts.
func (w *world) works(ctx context.Context, what string, n int) (int, error) {
	if err := schedule.Sleep(ctx, schedule.Between(schedule.Draw(w.seed, "step", what, n), time.Millisecond, time.Second)); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worked++
	return w.worked, nil
}

// run starts a run from a call and waits for it, in schedules of runs.
func (a *author) run(ctx context.Context, body string) (string, error) {
	out, err := a.world.job.Run(ctx, runName+body, job{body, int(schedule.Draw(a.world.seed, "below", body) % 3)}, nil)
	var settled *conversation.SettledError
	if errors.As(err, &settled) {
		return string(settled.Outcome), nil
	}
	return out, err
}

// runs reports whether a call for a body starts a run.
func (w *world) runs(body string) bool {
	return w.profile == Runs && schedule.Draw(w.seed, "runs", body)%4 != 0
}

// heardRun is what a call has heard of a run; it is not ok for another wait.
func heardRun(r *conversation.WaitEnded) (text string, ok bool) {
	var told conversation.ToldReply
	if !strings.HasPrefix(r.Name, runName) || r.Reason != conversation.EndedBySignal || json.Unmarshal(r.Value, &told) != nil {
		return "", false
	}
	if told.Outcome != conversation.OutcomeCompleted || json.Unmarshal(told.Output, &text) != nil {
		return string(told.Outcome), true
	}
	return text, true
}

// begunRun is a run that somebody has wanted to start. It is sure once who starts it has a record of its receipt: until then
// an abort may leave it to nobody.
type begunRun struct {
	at   conversation.Address
	sure bool
}

// begun are the runs that logs say were to be started, and those that they have started.
func (w *world) begun(ctx context.Context) (out []begunRun) {
	var add func(at conversation.Address)
	add = func(at conversation.Address) {
		sure := map[string]bool{}
		for _, b := range w.log(ctx, at).batches {
			for _, r := range b.Records {
				if s, ok := r.(*conversation.StepRecorded); ok {
					sure[string(s.Call)+" "+s.Name] = true
				}
			}
		}
		for _, b := range w.log(ctx, at).batches {
			for _, r := range b.Records {
				if s, ok := r.(*conversation.WaitStarted); ok && strings.HasPrefix(s.Name, runName) {
					call := string(s.Call) + " " + s.Name
					below := conversation.RunAddress(conversation.RunFor(jobName, at.ID+" "+call))
					out = append(out, begunRun{below, sure[call+" asked"]})
					add(below)
				}
			}
		}
	}
	if w.profile == Runs {
		for c := range w.profile.conversations() {
			add(address(c))
		}
	}
	return out
}

// owedRuns says what is still to be done for runs, "" if nothing is.
func (w *world) owedRuns(ctx context.Context, aside map[conversation.Key]bool) string {
	for _, b := range w.begun(ctx) {
		state := w.log(ctx, b.at).state
		if run := state.Run(); b.sure && (run == nil || run.Outcome == "") {
			return fmt.Sprintf("the run %s has not ended", b.at.ID)
		}
		if id := untold(state, aside); b.sure && id != "" {
			return fmt.Sprintf("nobody was told of the run %s", b.at.ID)
		}
	}
	return ""
}

// checkRuns checks that each run has come to what its log says of its steps, each recorded once, and that who started it has
// heard that.
func (w *world) checkRuns(ctx context.Context) {
	for _, b := range w.begun(ctx) {
		log := w.log(ctx, b.at)
		run := log.state.Run()
		switch {
		case log.err != nil:
			w.trace.Violate(b.at.ID, "the log of the run cannot be read: %v", log.err)
		case run != nil && run.Outcome != "":
			w.shown.Add(didRun + schedule.Deed(run.Outcome))
			w.checkRun(b.at, log, run)
		case b.sure:
			w.trace.Violate(b.at.ID, "the run has not ended")
		}
	}
}

func (w *world) checkRun(at conversation.Address, log *knownLog, run *conversation.Run) {
	var in job
	if err := json.Unmarshal(run.Input, &in); err != nil {
		w.trace.Violate(at.ID, "the run was given %s", run.Input)
	}
	want, settled, below := in.For, 0, ""
	steps := map[string]bool{}
	heard := map[string]string{}
	for _, b := range log.batches {
		for _, r := range b.Records {
			switch r := r.(type) {
			case *conversation.StepRecorded:
				if steps[r.Name] {
					w.trace.Violate(at.ID, "the step %s is recorded again at %d", r.Name, int64(b.Offset))
				}
				steps[r.Name] = true
				if strings.HasPrefix(r.Name, "step ") {
					want += " " + string(r.Output)
				}
			case *conversation.WaitEnded:
				if text, ok := heardRun(r); ok {
					heard[r.Name] = text
				}
			case *conversation.SubmissionSettled:
				if r.Submission == run.Submission {
					settled++
				}
			}
		}
	}
	for n := range in.Below {
		below += " (" + heard[fmt.Sprint(runName, n)] + ")"
	}
	var got string
	switch {
	case settled != 1:
		w.trace.Violate(at.ID, "the run is settled %d times", settled)
	case w.jobFails(in.For) != (run.Outcome == conversation.OutcomeFailed && run.Error.Message == jobFails):
		w.trace.Violate(at.ID, "the run has come to %s, %+v", run.Outcome, run.Error)
	case run.Outcome == conversation.OutcomeCompleted && (json.Unmarshal(run.Output, &got) != nil || got != want+below):
		w.trace.Violate(at.ID, "the run returned %s, its log makes %q", run.Output, want+below)
	}
}

func wantedOfRuns() map[schedule.Deed]int {
	out := wantedOfWaits()
	for deed := range out {
		out[deed] /= 4
	}
	out[didRun+"completed"], out[didRun+"failed"] = 1000, 100
	return out
}
