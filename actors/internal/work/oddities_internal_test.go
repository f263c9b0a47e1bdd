package work

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// covers: providers/211
func TestOdditiesAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	n := &Node{o: NodeOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	for i := range 3 {
		n.odd("p/m", providers.Oddity{Kind: "end", Word: fmt.Sprint("word", i)})
		n.odd("p/m", providers.Oddity{Kind: "usage.cost"})
		n.odd("p/other", providers.Oddity{Kind: "end"})
	}
	if got := strings.Count(log.String(), "\n"); got != 3 || !strings.Contains(log.String(), "kind=end word=word0") {
		t.Errorf("got %d lines, want 3:\n%s", got, log.String())
	}
	for i := range 2 * maxOddities {
		n.odd("p/many", providers.Oddity{Kind: fmt.Sprint(i)})
	}
	if got := strings.Count(log.String(), "\n"); got != maxOddities {
		t.Errorf("got %d lines, want at most %d", got, maxOddities)
	}
}
