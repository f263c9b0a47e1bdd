package googlegenerativeai

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// shape describes the history that a model expects. Values can be compared.
type shape struct {
	// signed models verify the signature of the first call of a step, and accept images in results.
	signed bool
	// ids is set if calls and results have ids.
	ids bool
}

func shapeOf(m providers.Model) shape {
	id := bareID(m.ID)
	signed := generation(m) >= 3
	return shape{signed: signed, ids: signed || foreign(id)}
}

// foreign reports whether the model is from another maker.
func foreign(id string) bool {
	return strings.HasPrefix(id, "claude-") || strings.HasPrefix(id, "gpt-oss-")
}

// bareID returns the id of a model without its publisher.
func bareID(id string) string { return strings.ToLower(id[strings.LastIndexByte(id, '/')+1:]) }

var numbered = regexp.MustCompile(`^gemini-(\d+)(?:[.-]|$)`)

// unnumbered is the generation of names without a number, which always refer to the latest model.
const unnumbered = 3

// generation returns the first number of a model's version, 0 if it has none. A model without a number
// is at least generation 3 if it supports levels.
func generation(m providers.Model) int {
	id := bareID(m.ID)
	if found := numbered.FindStringSubmatch(id); found != nil {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return unnumbered // the number overflows
		}
		return n
	}
	if strings.HasPrefix(id, "gemini-") && (strings.HasSuffix(id, "-latest") || len(m.Thinking) > 0) {
		return unnumbered
	}
	return 0
}
