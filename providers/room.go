package providers

import (
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Estimates of the tokens of a request. A high estimate shortens the maximum answer; a low one is
// corrected by the server's error.
const (
	bytesPerToken  = 3
	tokensPerImage = 2000
	// marginShare and minMargin reserve a part of the window.
	marginShare = 64
	minMargin   = 256
	// minRoom and roomShare are the lower bounds of the room in a full window, or one estimated to be
	// full.
	minRoom   = 1024
	roomShare = 8
	// defaultOutput is the limit for a model without one, if the protocol requires a limit.
	defaultOutput = 8192
	// minLimit is the smallest limit that every server accepts.
	minLimit = 16
)

// MaxOutput returns the largest output limit that the model's server accepts: the smaller of MaxTokens
// and Room; 0 if neither is known.
func (m Model) MaxOutput() int {
	switch {
	case m.Room <= 0:
		return m.MaxTokens
	case m.MaxTokens <= 0:
		return m.Room
	}
	return min(m.MaxTokens, m.Room)
}

// roomFor returns the output tokens that a request leaves in a model's window; 0 if the window is
// unknown.
func roomFor(m Model, req Request) int {
	if m.ContextWindow <= 0 {
		return 0
	}
	text := len(req.System) + TextBytes(req.Messages)
	images := countImages(req.Messages)
	for _, b := range req.History {
		text += b.TextBytes()
		images += countImages(b.messages)
	}
	for _, t := range req.Tools {
		text += len(t.Name) + len(t.Description) + len(t.InputSchema)
	}
	if imagesFor(m).taken() {
		text += bytesPerToken * tokensPerImage * images
	}
	room := m.ContextWindow - text/bytesPerToken - max(m.ContextWindow/marginShare, minMargin)
	return max(room, min(minRoom, m.ContextWindow/roomShare), 1)
}

// limitOf returns the output limit of a call, 0 if it has none.
func limitOf(m Model, o Options) int {
	limit, most := max(o.MaxTokens, 0), m.MaxOutput()
	if most > 0 && (limit > most || limit == 0 && (m.MaxTokens > 0 || most < defaultOutput)) {
		return most
	}
	return limit
}

// outputWords matches a message about the output limit.
var outputWords = regexp.MustCompile(`(?i)max[_ ]?(?:completion_|output_|new_)?tokens|maxoutputtokens|completion|in the output|maximum tokens|output tokens`)

// outputLimits match servers' messages about a rejected output limit. The named groups are the limit,
// or the window and the prompt; the group below is an exclusive bound.
var outputLimits = func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, text := range []string{
		`max_tokens\W* exceed context limit: (?P<prompt>\d+) \+ \d+ > (?P<window>\d+)`,
		`context length is (?P<window>\d+) tokens\b.*\((?P<prompt>\d+) (?:in the messages|of text input|in your prompt|in the prompt)`,
		`context length is (?P<window>\d+) tokens and your request has (?P<prompt>\d+) input tokens`,
		`max_new_tokens\W* must be <= (?P<window>\d+)\. given: (?P<prompt>\d+)`,
		`range is from \d+ \(inclusive\) to (?P<below>\d+) \(exclusive\)`,
		`lower than (?P<below>\d+)`, `must be (?:less|smaller) than (?P<below>\d+)`,
		`range of max_tokens (?:is|should be) \[\d+, ?(?P<limit>\d+)\]`,
		`supports? at most (?P<limit>\d+)`,
		`\d+ > (?P<limit>\d+), which is the maximum`,
		`(?:less than or equal to|at most|<=|not exceed|cannot exceed|no more than|up to|maximum(?: value)?(?: of| is|:)?|limit of|between \d+ and) (?P<limit>\d+)`,
	} {
		out = append(out, regexp.MustCompile(text))
	}
	return out
}()

// limitInError returns the output limit in a server's error, 0 if there is none, and whether it applies
// to this request only. sent is the rejected limit.
func limitInError(err error, sent int) (limit int, once bool) {
	var e *Error
	var vendor *VendorError
	if sent <= minLimit || !errors.As(err, &e) || !errors.As(err, &vendor) || !outputWords.MatchString(vendor.Message) {
		return 0, false
	}
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity && e.Status != http.StatusRequestEntityTooLarge {
		return 0, false
	}
	message := strings.NewReplacer("`", "", "'", "", `"`, "", "\n", " ").Replace(strings.ToLower(vendor.Message))
	for _, pattern := range outputLimits {
		found := pattern.FindStringSubmatch(message)
		if found == nil {
			continue
		}
		counts := map[string]int{}
		for i, name := range pattern.SubexpNames() {
			if n, err := strconv.Atoi(found[i]); err == nil && name != "" {
				counts[name] = n
			}
		}
		_, once = counts["window"]
		limit = max(counts["limit"], counts["below"]-1, counts["window"]-counts["prompt"])
		if limit < minLimit || limit >= sent {
			return 0, false
		}
		return limit, once
	}
	return 0, false
}

// maxKnownLimits bounds the number of cached limits.
const maxKnownLimits = 1024

// knownLimits caches the output limits reported by servers, by model. The zero value is ready to use
// and safe for concurrent use.
type knownLimits struct {
	mu     sync.Mutex
	limits map[string]int
}

func limitKey(m Model) string { return m.Spec() + " " + m.BaseURL }

// over returns the smaller of room and the cached limit of a model.
func (k *knownLimits) over(m Model, room int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.limits[limitKey(m)]; known > 0 {
		if room <= 0 {
			room = math.MaxInt
		}
		return min(room, known)
	}
	return room
}

func (k *knownLimits) learn(m Model, limit int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limits == nil || len(k.limits) >= maxKnownLimits {
		k.limits = map[string]int{}
	}
	k.limits[limitKey(m)] = limit
}
