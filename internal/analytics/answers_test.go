package analytics_test

import (
	"maps"
	"slices"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// answers returns the expected answers to all questions of the page.
func answers() map[string]answer {
	all := turnAnswers()
	maps.Copy(all, submissionAnswers())
	maps.Copy(all, workAnswers())
	return all
}

// byModel returns the key of a turn by model.
func byModel(e *observability.Event) []any {
	r := e.Payload.(*observability.Turn).Request
	return []any{r.Provider, r.Model}
}

func turnAnswers() map[string]answer {
	turns := func(w *world, since conversation.Time) []observability.Event {
		return w.since(since, observability.TypeTurn)
	}
	return map[string]answer{
		"Cost per agent and day": {"day agent model calls tokens usd", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(turns(w, since), func(e *observability.Event) []any {
				return []any{day(e), e.Agent, e.Payload.(*observability.Turn).Request.Model}
			}, costs), 1, 2, 3)
		}},
		"Most expensive conversations": {"agent instance_id calls tokens usd", func(w *world, since conversation.Time) [][]any {
			return first(ordered(grouped(turns(w, since), func(e *observability.Event) []any {
				return []any{e.Agent, e.Instance}
			}, costs), -5, 1, 2), 20, 5)
		}},
		"First-token latency per model": {"provider model calls p50 p90 p99", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(turns(w, since), func(e *observability.Event) []any {
				if e.Payload.(*observability.Turn).FirstTokenMs == 0 {
					return nil
				}
				return byModel(e)
			}, func(g *group) []any {
				all := payloads[*observability.Turn](g)
				return append([]any{int64(len(all))}, quantiles(all, func(t *observability.Turn) int64 { return t.FirstTokenMs }, 0.5, 0.9, 0.99)...)
			}), 1, 2)
		}},
		"Slowest turns": {
			"ts agent instance_id submission_id model purpose duration_ms first_token_ms output_tokens",
			func(w *world, since conversation.Time) [][]any { return slowest(turns(w, since)) },
		},
		"Prompt cache hits": {"agent model input hit written share", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(turns(w, since), func(e *observability.Event) []any {
				return []any{e.Agent, e.Payload.(*observability.Turn).Request.Model}
			}, cached), 1, 2)
		}},
		"Retries per model": {"provider model calls retried per_call", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(turns(w, since), byModel, func(g *group) []any {
				retried := sum(payloads[*observability.Turn](g), func(t *observability.Turn) int64 {
					if t.Dropped {
						return 0
					}
					return int64(t.Retries)
				})
				return []any{int64(len(g.events)), retried, float64(retried) / float64(len(g.events))}
			}), -5, 1, 2)
		}},
		"Time of failed and withdrawn model calls": {"provider model failed withdrawn lost_ms share", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(turns(w, since), byModel, lost), -5, 1, 2)
		}},
	}
}

// costs returns calls, tokens and dollars.
func costs(g *group) []any {
	all := payloads[*observability.Turn](g)
	return []any{int64(len(all)), sum(all, tokens), sum(all, dollars)}
}

// cached returns the share of turns' input that came from the prompt cache.
func cached(g *group) []any {
	all := payloads[*observability.Turn](g)
	input := sum(all, func(t *observability.Turn) int64 { return used(t).Input })
	hit := sum(all, func(t *observability.Turn) int64 { return used(t).CacheRead })
	written := sum(all, func(t *observability.Turn) int64 { return used(t).CacheWrite })
	if input+hit+written == 0 {
		return nil
	}
	return []any{input, hit, written, float64(hit) / float64(input+hit+written)}
}

// lost returns the time of model calls without a result.
func lost(g *group) []any {
	all := payloads[*observability.Turn](g)
	isError := func(t *observability.Turn) bool { return t.IsError }
	took := func(t *observability.Turn) int64 { return t.DurationMs }
	ms := sum(slices.DeleteFunc(slices.Clone(all), func(t *observability.Turn) bool { return !t.IsError }), took)
	return []any{
		count(all, isError), count(all, func(t *observability.Turn) bool { return t.Dropped }), ms, float64(ms) / float64(sum(all, took)),
	}
}

func slowest(turns []observability.Event) [][]any {
	var rows [][]any
	for _, e := range turns {
		t := e.Payload.(*observability.Turn)
		var firstToken any
		if t.FirstTokenMs > 0 {
			firstToken = t.FirstTokenMs
		}
		rows = append(rows, []any{
			moment(e.At), e.Agent, e.Instance, string(e.Submission), t.Request.Model, t.Purpose, t.DurationMs, firstToken, used(t).Output, e.ID,
		})
	}
	return first(ordered(rows, -7, 10), 20, 9)
}

// waits returns the number and the durations of waits by agent. ms returns the duration of an event,
// and whether it counts.
func waits[P observability.Payload](events []observability.Event, ms func(P) (int64, bool)) [][]any {
	return ordered(grouped(events, func(e *observability.Event) []any {
		if _, counts := ms(e.Payload.(P)); !counts {
			return nil
		}
		return []any{e.Agent}
	}, func(g *group) []any {
		all := payloads[P](g)
		waited := func(p P) int64 {
			n, _ := ms(p)
			return n
		}
		return append([]any{int64(len(all))}, quantiles(all, waited, 0.5, 0.9, 0.99, 1)...)
	}), 1)
}

func submissionAnswers() map[string]answer {
	settled := func(w *world, since conversation.Time) []observability.Event {
		return w.since(since, observability.TypeSubmissionSettled)
	}
	outcome := func(word string) func(s *observability.SubmissionSettled) bool {
		return func(s *observability.SubmissionSettled) bool { return s.Outcome == word }
	}
	return map[string]answer{
		"Queue latency": {"agent begun p50 p90 p99 longest", func(w *world, since conversation.Time) [][]any {
			return waits(w.since(since, observability.TypeSubmissionRunning), func(r *observability.SubmissionRunning) (int64, bool) {
				return r.QueuedMs, !r.Resumed
			})
		}},
		"Admission latency": {"agent admitted p50 p90 p99 longest", func(w *world, since conversation.Time) [][]any {
			return waits(settled(w, since), func(s *observability.SubmissionSettled) (int64, bool) {
				return s.AdmissionMs, s.AdmissionMs > 0
			})
		}},
		"Settlement latency": {"agent outcome submissions p50 p99 p50_work", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(settled(w, since), func(e *observability.Event) []any {
				return []any{e.Agent, e.Payload.(*observability.SubmissionSettled).Outcome}
			}, func(g *group) []any {
				all := payloads[*observability.SubmissionSettled](g)
				row := append([]any{int64(len(all))}, quantiles(all, func(s *observability.SubmissionSettled) int64 { return s.TotalMs }, 0.5, 0.99)...)
				return append(row, quantiles(all, func(s *observability.SubmissionSettled) int64 { return s.WorkMs }, 0.5)...)
			}), 1, 2)
		}},
		"Success rate per agent and hour": {"hour agent completed failed aborted success", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(settled(w, since), func(e *observability.Event) []any { return []any{hour(e), e.Agent} }, func(g *group) []any {
				all := payloads[*observability.SubmissionSettled](g)
				completed, failed := count(all, outcome("completed")), count(all, outcome("failed"))
				var success any
				if completed+failed > 0 {
					success = float64(completed) / float64(completed+failed)
				}
				return []any{completed, failed, count(all, outcome("aborted")), success}
			}), 1, 2)
		}},
		"Errors per hour": {"hour type error_type errors", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeSubmissionSettled, observability.TypeTurn), func(e *observability.Event) []any {
				if err := errorOf(e.Payload); err != "" {
					return []any{hour(e), string(e.Type), err}
				}
				return nil
			}, func(g *group) []any { return []any{int64(len(g.events))} }), 1, 2, 3)
		}},
		"Aborted submissions": {
			"ts agent instance_id submission_id attempt work_ms total_ms",
			func(w *world, since conversation.Time) [][]any {
				var rows [][]any
				for _, e := range settled(w, since) {
					if s := e.Payload.(*observability.SubmissionSettled); s.Outcome == "aborted" {
						rows = append(rows, []any{moment(e.At), e.Agent, e.Instance, string(e.Submission), int64(s.Attempt), s.WorkMs, s.TotalMs})
					}
				}
				return first(ordered(rows, -1, 4), 100, 7)
			},
		},
		"Events of a submission": {"ts type session what ms tokens error_type", func(w *world, _ conversation.Time) [][]any { return eventsOf(w, busiest(w)) }},
		"Unsettled submissions": {
			"agent instance_id submission_id since attempts state", func(w *world, _ conversation.Time) [][]any { return unsettled(w) },
		},
	}
}

// unsettled returns the submissions without an outcome.
func unsettled(w *world) [][]any {
	all := w.since(0, observability.TypeSubmissionQueued, observability.TypeSubmissionRunning, observability.TypeSubmissionSettled)
	return ordered(grouped(all, func(e *observability.Event) []any { return []any{e.Agent, e.Instance, string(e.Submission)} }, func(g *group) []any {
		if len(payloads[*observability.SubmissionSettled](g)) > 0 {
			return nil
		}
		since, attempts, state := g.events[0].At, 0, "queued"
		for _, e := range g.events {
			since = min(since, e.At)
		}
		for _, r := range payloads[*observability.SubmissionRunning](g) {
			attempts, state = max(attempts, r.Attempt), "running"
		}
		return []any{moment(since), int64(attempts), state}
	}), 4, 3)
}

// errorOf returns the error of a settlement or a turn, "" for none.
func errorOf(p observability.Payload) string {
	var err *observability.Error
	switch p := p.(type) {
	case *observability.SubmissionSettled:
		err = p.Error
	case *observability.Turn:
		err = p.Response.Error
	case *observability.Operation:
		err = p.Error
	case *observability.SubmissionRecovery:
		err = p.Error
	case *observability.Compaction:
		err = p.Error
	}
	if err == nil {
		return ""
	}
	return err.Type
}

// eventsOf returns the durable events of a submission, in order.
func eventsOf(w *world, id conversation.SubmissionID) [][]any {
	var events []observability.Event
	for _, e := range w.events {
		if e.Submission == id && !e.Live() {
			events = append(events, e)
		}
	}
	var rows [][]any
	for _, e := range events {
		var desc string
		var ms any
		var total int64
		switch p := e.Payload.(type) {
		case *observability.SubmissionRunning:
			if !p.Resumed {
				ms = p.QueuedMs
			}
		case *observability.SubmissionSettled:
			desc, ms = p.Outcome, p.TotalMs
		case *observability.SubmissionRecovery:
			desc = p.Outcome
		case *observability.Operation:
			ms, total = p.DurationMs, usageTotal(p.Usage)
		case *observability.AgentEnd:
			if p.DurationMs > 0 {
				ms = p.DurationMs
			}
		case *observability.TurnStart:
			desc = modelOf(p.Model)
		case *observability.Turn:
			desc, ms, total = p.Request.Model, p.DurationMs, usageTotal(p.Response.Usage)
		case *observability.ToolStart:
			desc = p.ToolName
		case *observability.Tool:
			desc, ms = p.ToolName, p.DurationMs
		case *observability.WaitStart:
			desc = p.ToolName
		case *observability.Wait:
			desc, ms = p.ToolName, p.DurationMs
		case *observability.TaskStart:
			desc = p.Agent
		case *observability.Task:
			desc, ms, total = p.Agent, p.DurationMs, usageTotal(p.Usage)
		case *observability.Compaction:
			ms, total = p.DurationMs, usageTotal(p.Usage)
		}
		rows = append(rows, []any{moment(e.At), string(e.Type), e.Session, desc, ms, total, errorOf(e.Payload)})
	}
	return rows
}

func modelOf(spec string) string {
	return observability.RequestOf(spec, conversation.CallFacts{}).Model
}

func usageTotal(u *observability.Usage) int64 {
	if u == nil {
		return 0
	}
	return u.Total
}

func workAnswers() map[string]answer {
	return map[string]answer{
		"Tool failures": {"agent tool calls failed share p50", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeTool), func(e *observability.Event) []any {
				return []any{e.Agent, e.Payload.(*observability.Tool).ToolName}
			}, func(g *group) []any {
				all := payloads[*observability.Tool](g)
				failed := count(all, func(t *observability.Tool) bool { return t.IsError })
				done := slices.DeleteFunc(slices.Clone(all), func(t *observability.Tool) bool { return t.IsError })
				row := []any{int64(len(all)), failed, float64(failed) / float64(len(all))}
				return append(row, quantiles(done, func(t *observability.Tool) int64 { return t.DurationMs }, 0.5)...)
			}), -5, 1, 2)
		}},
		"Recoveries per agent and day": {"day agent attempts submissions highest", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeSubmissionRunning), func(e *observability.Event) []any {
				if !e.Payload.(*observability.SubmissionRunning).Recovered {
					return nil
				}
				return []any{day(e), e.Agent}
			}, func(g *group) []any {
				attempts := quantiles(payloads[*observability.SubmissionRunning](g), func(r *observability.SubmissionRunning) int64 { return int64(r.Attempt) }, 1)
				return []any{int64(len(g.events)), distinct(g.events, func(e observability.Event) conversation.SubmissionID { return e.Submission }), attempts[0]}
			}), 1, 2)
		}},
		"Lost writers per agent and hour": {"hour agent recoveries fences conversations", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeSubmissionRecovery), func(e *observability.Event) []any {
				if !e.Live() { // It was abandoned.
					return nil
				}
				return []any{hour(e), e.Agent}
			}, func(g *group) []any {
				fences := count(payloads[*observability.SubmissionRecovery](g), func(r *observability.SubmissionRecovery) bool { return r.Fenced })
				return []any{int64(len(g.events)), fences, distinct(g.events, func(e observability.Event) string { return e.Instance })}
			}), 1, 2)
		}},
		"Active conversations per hour": {"hour agent conversations submissions", func(w *world, since conversation.Time) [][]any {
			// since is the start of an hour.
			return ordered(grouped(w.since(since), func(e *observability.Event) []any {
				if e.Live() {
					return nil
				}
				return []any{hour(e), e.Agent}
			}, func(g *group) []any {
				worked := slices.DeleteFunc(slices.Clone(g.events), func(e observability.Event) bool { return e.Submission == "" })
				return []any{
					distinct(g.events, func(e observability.Event) string { return e.Instance }),
					distinct(worked, func(e observability.Event) conversation.SubmissionID { return e.Submission }),
				}
			}), 1, 2)
		}},
		"Subagent outcomes": {"task_agent outcome tasks p50 p99 tokens", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeTask), func(e *observability.Event) []any {
				t := e.Payload.(*observability.Task)
				return []any{t.Agent, t.Outcome}
			}, func(g *group) []any {
				all := payloads[*observability.Task](g)
				row := append([]any{int64(len(all))}, quantiles(all, func(t *observability.Task) int64 { return t.DurationMs }, 0.5, 0.99)...)
				return append(row, sum(all, func(t *observability.Task) int64 { return usageTotal(t.Usage) }))
			}), 1, 2)
		}},
		"Waits for signals": {"tool reason waits p50 p99", func(w *world, since conversation.Time) [][]any {
			return ordered(grouped(w.since(since, observability.TypeWait), func(e *observability.Event) []any {
				wait := e.Payload.(*observability.Wait)
				return []any{wait.ToolName, wait.Reason}
			}, func(g *group) []any {
				all := payloads[*observability.Wait](g)
				return append([]any{int64(len(all))}, quantiles(all, func(w *observability.Wait) int64 { return w.DurationMs }, 0.5, 0.99)...)
			}), 1, 2)
		}},
		"Deliveries per target": {"target delivered failed dead p99", deliveries},
		"Compactions": {
			"agent why compactions saved read written", func(w *world, since conversation.Time) [][]any { return shortened(w, since) },
		},
	}
}

func deliveries(w *world, since conversation.Time) [][]any {
	return ordered(grouped(w.since(since, observability.TypePost), func(e *observability.Event) []any {
		return []any{e.Payload.(*observability.Post).Target}
	}, func(g *group) []any {
		all := payloads[*observability.Post](g)
		row := []any{}
		for _, outcome := range []string{observability.PostDelivered, observability.PostDeferred, observability.PostDead} {
			row = append(row, count(all, func(p *observability.Post) bool { return p.Outcome == outcome }))
		}
		return append(row, quantiles(all, func(p *observability.Post) int64 { return p.DurationMs }, 0.99)...)
	}), 1)
}

func shortened(w *world, since conversation.Time) [][]any {
	return ordered(grouped(w.since(since, observability.TypeCompaction), func(e *observability.Event) []any {
		return []any{e.Agent, e.Payload.(*observability.Compaction).Reason}
	}, func(g *group) []any {
		all := payloads[*observability.Compaction](g)
		return []any{
			int64(len(all)),
			sum(all, func(c *observability.Compaction) int64 { return int64(c.MessagesBefore - c.MessagesAfter) }),
			sum(all, func(c *observability.Compaction) int64 { return c.Usage.Input + c.Usage.CacheRead + c.Usage.CacheWrite }),
			sum(all, func(c *observability.Compaction) int64 { return c.Usage.Output }),
		}
	}), 1, 2)
}
