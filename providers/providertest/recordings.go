package providertest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// Recorded is one recording of RunRecordings.
type Recorded struct {
	Name   string
	Status int
	// Body is the recorded response.
	Body []byte
	// Events and Failure are the result of the codec.
	Events  []providers.Event
	Failure *providers.Error
}

type recordedMeta struct {
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Response struct {
		Framing string `json:"framing"`
	} `json:"response"`
}

// cuts is the number of positions at which a recording is truncated.
const cuts = 200

var recordings = flag.String("recordings", "", "decode the recordings of vendors' traffic in this folder, which has one for each slug")

// RunRecordings decodes all recordings of a slug in the folder of the flag -recordings, for authors of
// codecs. Each recording is a folder with meta.json (status, headers, framing) and response.sse,
// response.bin or chunks.jsonl. Each must follow the rules of a stream, whole and truncated. look
// checks the result. A body without streaming is decoded as such, and an error response is classified.
// A slug may have no folder. Without the flag RunRecordings does nothing.
func RunRecordings(t *testing.T, slug string, c providers.Codec, check func(*testing.T, Recorded)) {
	if *recordings == "" {
		return
	}
	if _, err := os.Stat(*recordings); err != nil {
		t.Fatalf("find recordings: %v; pass an existing folder with -recordings", err)
	}
	found, err := filepath.Glob(filepath.Join(*recordings, slug, "*", "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Logf("no recordings of %s", slug)
	}
	for _, meta := range found {
		dir := filepath.Dir(meta)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			r := recorded(t, dir, c)
			t.Logf("%d events, %v", len(r.Events), r.Failure)
			check(t, r)
		})
	}
}

func recorded(t *testing.T, dir string, c providers.Codec) Recorded {
	var meta recordedMeta
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := json.Unmarshal(read("meta.json"), &meta); err != nil {
		t.Fatal(err)
	}
	r := Recorded{Name: filepath.Base(dir), Status: meta.Status}
	switch meta.Response.Framing {
	case "sse":
		r.Body = read("response.sse")
	case "aws-eventstream":
		r.Body = read("response.bin")
	case "jsonl-chunks":
		for line := range bytes.Lines(read("chunks.jsonl")) {
			r.Body = fmt.Appendf(r.Body, "data: %s\n\n", bytes.TrimSpace(line))
		}
	default:
		r.Body = read("response.bin")
	}
	if meta.Status >= 400 {
		h := http.Header{}
		for k, v := range meta.Headers {
			h.Set(k, v)
		}
		r.Failure = providers.ResponseError(meta.Status, h, r.Body)
		return r
	}
	r.Events, r.Failure = decodeWhole(t, c, r.Body)
	if r.Failure != nil {
		return r // the events before may be a complete response
	}
	for n := 0; n < len(r.Body); n += len(r.Body)/cuts + 1 {
		if events, _ := decodeWhole(t, c, r.Body[:n]); len(events) > len(r.Events) {
			t.Errorf("cut at %d: got %d events, want at most %d", n, len(events), len(r.Events))
		}
	}
	return r
}

func decodeWhole(t *testing.T, c providers.Codec, body []byte) ([]providers.Event, *providers.Error) {
	t.Helper()
	events, failure, broken := Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"}, func(a *providers.Assembler) error {
		return c.Decode(bytes.NewReader(body), a)
	}))
	if broken != nil {
		t.Fatal(broken)
	}
	return events, failure
}
