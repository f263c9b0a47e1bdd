package googlegenerativeai

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// shape is how a model wants history. Values can be compared.
type shape struct {
	// signed models check that the first call of a step has the signature it came with,
	// and take images within the results of calls.
	signed bool
	// ids tells that calls and results have them.
	ids bool
}

func shapeOf(m providers.Model) shape {
	id := bareID(m.ID)
	signed := generation(m) >= 3
	return shape{signed: signed, ids: signed || foreign(id)}
}

// foreign models are those of other makers that the vendor serves.
func foreign(id string) bool {
	return strings.HasPrefix(id, "claude-") || strings.HasPrefix(id, "gpt-oss-")
}

// bareID is the id of a model without what it is published under.
func bareID(id string) string { return strings.ToLower(id[strings.LastIndexByte(id, '/')+1:]) }

var numbered = regexp.MustCompile(`^gemini-(\d+)(?:[.-]|$)`)

// unnumbered stands for the generation of a name that moves on with them.
const unnumbered = 3

// generation is the first number of a model's version, 0 if it has none. Of models whose
// names have no number those are of generation 3 at least that think in levels.
func generation(m providers.Model) int {
	id := bareID(m.ID)
	if found := numbered.FindStringSubmatch(id); found != nil {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			return unnumbered // a number of twenty digits is no small one
		}
		return n
	}
	if strings.HasPrefix(id, "gemini-") && (strings.HasSuffix(id, "-latest") || len(m.Thinking) > 0) {
		return unnumbered
	}
	return 0
}
