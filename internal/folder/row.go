package folder

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

const (
	// titleRunes bounds the title taken from a message.
	titleRunes = 120
	// shownRows bounds the conversations of one response.
	shownRows = 500
	// stateQueued and stateRunning are the states of a submission before its outcome.
	stateQueued, stateRunning = "queued", "running"
)

// Conversation is a list entry. Times are in RFC 3339.
type Conversation struct {
	Agent  string            `json:"agent"`
	ID     string            `json:"id"`
	Title  string            `json:"title,omitempty"`
	Begun  conversation.Time `json:"begun"`
	Active conversation.Time `json:"active"`
	// Admitted counts its submissions. Submissions has the newest ones, newest first.
	Admitted    int          `json:"admitted"`
	Submissions []Submission `json:"submissions"`
	Tokens
	// Corrupt is the reason why its log cannot be read to the end.
	Corrupt string `json:"damaged,omitempty"`
}

// Submission is a submission in a list entry.
type Submission struct {
	ID    conversation.SubmissionID `json:"id"`
	Title string                    `json:"title,omitempty"`
	At    conversation.Time         `json:"at"`
	// State is queued, running, or the outcome; TotalMs is the time until then.
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
	TotalMs int64  `json:"totalMs,omitempty"`
	// Model is that of the newest model call, as provider/model. FirstTokenMs is the time from the
	// admission to the first token of any call.
	Model        string `json:"model,omitempty"`
	FirstTokenMs int64  `json:"firstTokenMs,omitempty"`
	Tokens
}

// Tokens is the model usage. Input includes reads from and writes to the prompt cache. Cost is in US
// dollars.
type Tokens struct {
	Input  int64   `json:"input"`
	Output int64   `json:"output"`
	Cost   float64 `json:"cost"`
}

func (t *Tokens) add(u *observability.Usage) {
	t.Input += u.Input + u.CacheRead + u.CacheWrite
	t.Output += u.Output
	t.Cost += u.Cost.Total
}

// row is a conversation up to the read position of its log.
type row struct {
	at      storage.Position
	source  observability.Source
	corrupt string
	Conversation
}

// add applies an event.
func (r *row) add(e *observability.Event) {
	r.Agent, r.ID, r.Active = e.Agent, e.Instance, e.At
	if r.Begun == 0 {
		r.Begun = e.At
	}
	if p, ok := e.Payload.(*observability.SubmissionQueued); ok {
		r.admit(e, p)
		return
	}
	at := slices.IndexFunc(r.Submissions, func(s Submission) bool { return s.ID == e.Submission })
	var s *Submission
	if s = new(Submission); at >= 0 { // A dropped submission counts too.
		s = &r.Submissions[at]
	}
	switch p := e.Payload.(type) {
	case *observability.SubmissionRunning:
		s.State = stateRunning
	case *observability.SubmissionSettled:
		s.State, s.TotalMs = p.Outcome, p.TotalMs
		if p.Error != nil {
			s.Error = p.Error.Type
		}
	case *observability.Turn:
		if p.Request.Model != "" && p.Purpose == observability.PurposeAgent && e.Task == "" {
			s.Model = p.Request.Provider + "/" + p.Request.Model
		}
		if s.FirstTokenMs == 0 && p.FirstTokenMs > 0 {
			s.FirstTokenMs = max(int64(e.At-s.At)-p.DurationMs+p.FirstTokenMs, 1)
		}
		if u := p.Response.Usage; u != nil {
			s.Tokens.add(u)
			r.Tokens.add(u)
		}
	}
}

// admit begins a submission, and drops the oldest one if there are too many.
func (r *row) admit(e *observability.Event, p *observability.SubmissionQueued) {
	s := Submission{ID: e.Submission, At: e.At, State: stateQueued}
	if p.Body != nil {
		s.Title = cli.OneLine(p.Body.Text, titleRunes)
	}
	if r.Title == "" {
		r.Title = s.Title
	}
	r.Admitted++
	if len(r.Submissions) == maxSubmissions {
		r.Submissions = slices.Delete(r.Submissions, 0, 1)
	}
	r.Submissions = append(r.Submissions, s)
}

// has reports whether a text search matches the conversation.
func (r *row) has(words string) bool {
	for _, text := range []string{r.ID, r.Agent, r.Title} {
		if strings.Contains(strings.ToLower(text), words) {
			return true
		}
	}
	return slices.ContainsFunc(r.Submissions, func(s Submission) bool {
		return strings.Contains(strings.ToLower(s.Title), words) || strings.EqualFold(string(s.ID), words)
	})
}

// list is the response of the endpoint conversations: the newest matches, and their total number.
type list struct {
	Conversations []Conversation `json:"conversations"`
	Found         int            `json:"found"`
	All           int            `json:"all"`
}

// conversation returns the conversation agent and id.
func (f *Folder) conversation(r *http.Request) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	key := conversation.Address{Agent: q.Get("agent"), ID: q.Get("id")}.Key()
	row := f.rows[key]
	if row == nil {
		if err := f.refresh(r.Context()); err != nil {
			return nil, err
		}
		if row = f.rows[key]; row == nil {
			return nil, notFound("There is no such conversation.", "No log in this folder has this agent and id.")
		}
	} else if err := f.read(r.Context(), key, row); err != nil && !storage.IsCorrupt(err) {
		return nil, err
	}
	return row.shown(), nil
}

// shown returns the list entry.
func (r *row) shown() Conversation {
	c := r.Conversation
	c.Corrupt, c.Submissions = r.corrupt, slices.Clone(r.Submissions)
	slices.Reverse(c.Submissions)
	return c
}

// search are the search parameters.
type search struct {
	words, agent, outcome string
	since                 conversation.Time
}

func parseSearch(q url.Values) (s search, err error) {
	s = search{words: strings.ToLower(strings.TrimSpace(q.Get("q"))), agent: q.Get("agent"), outcome: q.Get("outcome")}
	s.since, err = moment(q.Get("since"))
	return s, err
}

// matches reports whether a search matches the conversation. The outcome may be that of any of its
// newest submissions.
func (s search) matches(r *row) bool {
	switch {
	case r.Agent == "" && r.corrupt == "":
		return false
	case s.agent != "" && r.Agent != s.agent, r.Active < s.since, !r.has(s.words):
		return false
	}
	return s.outcome == "" || slices.ContainsFunc(r.Submissions, func(sub Submission) bool { return sub.State == s.outcome })
}

// conversations returns the matches of the parameters q, agent, outcome and since, newest first.
func (f *Folder) conversations(r *http.Request) (any, error) {
	search, err := parseSearch(r.URL.Query())
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refresh(r.Context()); err != nil {
		return nil, err
	}
	answer := list{Conversations: []Conversation{}, All: len(f.rows)}
	for _, row := range f.rows {
		if !search.matches(row) {
			continue
		}
		answer.Conversations = append(answer.Conversations, row.shown())
	}
	slices.SortFunc(answer.Conversations, func(a, b Conversation) int {
		return cmp.Or(cmp.Compare(b.Active, a.Active), strings.Compare(a.ID, b.ID))
	})
	answer.Found = len(answer.Conversations)
	answer.Conversations = answer.Conversations[:min(answer.Found, shownRows)]
	return answer, nil
}
