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

// What a request is reckoned to take of a window, in tokens. A reckoning that is too high shortens the
// longest possible answer; one that is too low is corrected by the server's own words.
const (
	bytesPerToken  = 3
	tokensPerImage = 2000
	// marginShare and minMargin keep a part of the window free.
	marginShare = 64
	minMargin   = 256
	// minRoom and roomShare bound the room from below, where the window is full or was reckoned to be.
	minRoom   = 1024
	roomShare = 8
	// defaultOutput is the limit that a protocol sends for a model without one, if it has to send one.
	defaultOutput = 8192
	// minLimit is the least limit that any server takes.
	minLimit = 16
)

// MaxOutput is the largest limit of output that the model's server takes: MaxTokens, and Room if that is
// smaller; 0 if neither is known.
func (m Model) MaxOutput() int {
	switch {
	case m.Room <= 0:
		return m.MaxTokens
	case m.MaxTokens <= 0:
		return m.Room
	}
	return min(m.MaxTokens, m.Room)
}

// roomFor returns how much of a model's window a request leaves for output, in tokens; 0 if the window is
// not known.
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

// limitOf is the limit of output of a call, 0 if it has none.
func limitOf(m Model, o Options) int {
	limit, most := max(o.MaxTokens, 0), m.MaxOutput()
	if most > 0 && (limit > most || limit == 0 && (m.MaxTokens > 0 || most < defaultOutput)) {
		return most
	}
	return limit
}

// outputWords tell that a message is about the limit of output.
var outputWords = regexp.MustCompile(`(?i)max[_ ]?(?:completion_|output_|new_)?tokens|maxoutputtokens|completion|in the output|maximum tokens|output tokens`)

// outputLimits are what servers say about a limit of output that they refuse. The named groups are the
// limit, or the window and the prompt; one that is named below is not taken itself.
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

// saidLimit returns the limit of output that a server says it takes, 0 if it says none, and whether that
// is for this request alone. sent is the limit that it refused.
func saidLimit(err error, sent int) (limit int, once bool) {
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
		said := map[string]int{}
		for i, name := range pattern.SubexpNames() {
			if n, err := strconv.Atoi(found[i]); err == nil && name != "" {
				said[name] = n
			}
		}
		_, once = said["window"]
		limit = max(said["limit"], said["below"]-1, said["window"]-said["prompt"])
		if limit < minLimit || limit >= sent {
			return 0, false
		}
		return limit, once
	}
	return 0, false
}

// maxKnownLimits bounds how many models a protocol knows a limit of.
const maxKnownLimits = 1024

// knownLimits are the limits of output that servers have said for their models. The zero value is ready, and
// it is safe for concurrent use.
type knownLimits struct {
	mu     sync.Mutex
	limits map[string]int
}

func limitKey(m Model) string { return m.Spec() + " " + m.BaseURL }

// over returns what is known of a model, or room if that is smaller or nothing is known.
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
