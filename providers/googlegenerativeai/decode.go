package googlegenerativeai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/sse"
)

var errNoFinish = errors.New("stream ended without a finishReason")

// chunk is one event: a response object with incremental content.
type chunk struct {
	Candidates []candidate `json:"candidates"`
	Feedback   struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage        json.RawMessage `json:"usageMetadata"`
	ModelVersion string          `json:"modelVersion"`
	ResponseID   string          `json:"responseId"`
	Error        json.RawMessage `json:"error"`
}

type candidate struct {
	Content struct {
		Parts []piece `json:"parts"`
	} `json:"content"`
	FinishReason  string `json:"finishReason"`
	FinishMessage string `json:"finishMessage"`
}

// piece is a part of a response. Parts of other kinds have none of its members.
type piece struct {
	Text      json.RawMessage `json:"text"`
	Thought   bool            `json:"thought"`
	Signature string          `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	d := decoder{out: a, ids: map[string]bool{}, json: sse.JSON{Skip: a.Skip("candidates", "candidates.content", "candidates.content.parts", "candidates.content.parts.functionCall")}}
	for e, err := range providers.Events(src, c.maxEventBytes, a) {
		if err == nil {
			err = d.event(e)
		}
		switch {
		case err == nil:
		case d.whole && !refused(err):
			d.done.Usage = d.used()
			a.Finish(d.done)
			return nil
		case err == io.EOF:
			return &providers.Error{Kind: providers.KindTruncated, Status: http.StatusOK, Err: errNoFinish}
		default:
			return err
		}
	}
	return nil
}

// refused reports whether an error is from the vendor, and not about data after the end.
func refused(err error) bool {
	var vendor *providers.VendorError
	return errors.As(err, &vendor)
}

// errorObject returns the error in a list, nil if there is none.
func errorObject(raw []byte) json.RawMessage {
	var list []struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(raw, &list) // other JSON values contain no error
	for _, f := range list {
		if sse.Given(f.Error) {
			return f.Error
		}
	}
	return nil
}

type decoder struct {
	out  *providers.Assembler
	done providers.Done
	// counts are the latest counts by member. A chunk may omit earlier members, and may correct them
	// downwards.
	counts map[string]int64
	ids    map[string]bool // ids of the calls so far
	// whole is set once the vendor has reported the end. Counts may follow.
	whole bool

	json sse.JSON
}

func (d *decoder) event(raw sse.Event) error {
	if bytes.HasPrefix(raw.Data, []byte("[")) {
		if object := errorObject(raw.Data); object != nil {
			return providers.StreamError(0, object, raw.Data)
		}
	}
	var c chunk
	if err := d.json.Decode(raw.Data, &c); err != nil {
		return providers.UndecodedEvent(raw, fmt.Errorf("decode chunk: %w", err))
	}
	if sse.Given(c.Error) {
		return providers.StreamError(0, c.Error, raw.Data)
	}
	d.done.ResponseID, d.done.ResponseModel = cmp.Or(c.ResponseID, d.done.ResponseID), cmp.Or(c.ModelVersion, d.done.ResponseModel)
	d.count(c.Usage)
	if c.Feedback.BlockReason != "" {
		d.done.StopReason, d.whole = providers.StopContentFilter, true
	}
	if len(c.Candidates) == 0 {
		return nil
	}
	// One candidate was requested; further ones are ignored.
	first := &c.Candidates[0]
	for _, p := range first.Content.Parts {
		if err := d.piece(p); err != nil {
			return providers.EventError(providers.KindProtocol, raw.Data, err)
		}
	}
	if err := d.out.End(first.FinishReason, first.FinishMessage, raw.Data); err != nil {
		return err
	}
	d.whole = d.whole || d.out.Ended() != ""
	return nil
}

// counted are the members of usageMetadata that are read.
var counted = []string{"promptTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"}

func (d *decoder) count(raw json.RawMessage) {
	n := d.out.Counts(raw)
	for _, member := range counted {
		if got := n.Of(member); got > 0 || n.Has(member) {
			if d.counts == nil {
				d.counts = map[string]int64{}
			}
			d.counts[member] = got
		}
	}
}

func (d *decoder) used() providers.Usage {
	c := d.counts
	cached, thoughts := c["cachedContentTokenCount"], c["thoughtsTokenCount"]
	return providers.Usage{
		Input: max(c["promptTokenCount"]-cached+c["toolUsePromptTokenCount"], 0), CacheRead: cached,
		Output: c["candidatesTokenCount"] + thoughts, Reasoning: thoughts,
	}
}

func (d *decoder) piece(p piece) error {
	text, err := sse.Text(p.Text)
	if err != nil {
		return err
	}
	switch {
	case p.Call != nil:
		i := d.out.StartCall(d.callID(p.Call.ID, p.Call.Name), p.Call.Name)
		if sse.Given(p.Call.Args) {
			d.out.CallArguments(i, string(p.Call.Args))
		}
		d.out.EndCall(i, p.Signature)
	case !sse.Given(p.Text):
	case p.Thought:
		d.out.Reasoning(text, "")
		if p.Signature != "" {
			d.out.EndReasoning(signed(len(text), p.Signature))
		}
	default:
		d.out.Text(text)
		if p.Signature != "" {
			d.out.EndText(signed(len(text), p.Signature))
		}
	}
	return nil
}

// callID returns the id of a call, or a new id if the vendor sends none or repeats one.
func (d *decoder) callID(id, name string) string {
	if d.out.Stopped() {
		return id
	}
	for n := len(d.ids) + 1; id == "" || d.ids[id]; n++ {
		id = fmt.Sprintf("%s_%d", name, n)
	}
	d.ids[id] = true
	return id
}
