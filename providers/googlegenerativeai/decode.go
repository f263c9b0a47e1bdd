package googlegenerativeai

import (
	"bufio"
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

var (
	errNoFinish = errors.New("stream ended without a finishReason")
	errNoStream = errors.New("response is JSON where server-sent events were asked for")
)

// chunk is one event: a whole response in the vendor's terms, with what is new in it.
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

// piece is a part of a response. Those of other kinds have none of its members.
type piece struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

// usage counts what the response has used so far. A chunk may leave out what an earlier one
// said, and correct it downwards.
type usage struct {
	Prompt   int64 `json:"promptTokenCount"`
	Cached   int64 `json:"cachedContentTokenCount"`
	ToolUse  int64 `json:"toolUsePromptTokenCount"`
	Answer   int64 `json:"candidatesTokenCount"`
	Thoughts int64 `json:"thoughtsTokenCount"`
}

func (u usage) decode() providers.Usage {
	return providers.Usage{
		Input: max(u.Prompt-u.Cached+u.ToolUse, 0), CacheRead: max(u.Cached, 0), Output: max(u.Answer+u.Thoughts, 0), Reasoning: max(u.Thoughts, 0),
	}
}

// peekSize is the least buffer that bufio has: what is larger is read past it.
const peekSize = 16

// Decode implements providers.Codec.
func (c codec) Decode(src io.Reader, a *providers.Assembler) error {
	body := bufio.NewReaderSize(src, peekSize)
	// An error comes again with the first read.
	if first, err := body.Peek(1); err == nil && (first[0] == '[' || first[0] == '{') {
		return noStream(body)
	}
	d := decoder{out: a, ids: map[string]bool{}}
	for e, err := range providers.Events(body, c.maxEventBytes, a) {
		if err == nil {
			err = d.event(e)
		}
		switch {
		case err == nil:
		case d.whole && !refused(err):
			d.done.Usage = d.usage.decode()
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

// refused reports that an error is the vendor's, and not one of what comes behind the end.
func refused(err error) bool {
	var vendor *providers.VendorError
	return errors.As(err, &vendor)
}

// noStream reads a response that is an error, or an array of chunks.
func noStream(body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, providers.MaxErrorBody))
	if err != nil {
		return err
	}
	if object := errorObject(raw); object != nil {
		return providers.StreamError(0, object, raw)
	}
	return providers.EventError(providers.KindProtocol, raw, errNoStream)
}

// errorObject returns the error of a response, which may stand in an array; nil if there is
// none.
func errorObject(raw []byte) json.RawMessage {
	type failed struct {
		Error json.RawMessage `json:"error"`
	}
	list := make([]failed, 1)
	if bytes.HasPrefix(raw, []byte("[")) {
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
	} else if json.Unmarshal(raw, &list[0]) != nil {
		return nil
	}
	for _, f := range list {
		if sse.Given(f.Error) {
			return f.Error
		}
	}
	return nil
}

// decoder is the state of one response.
type decoder struct {
	out   *providers.Assembler
	done  providers.Done
	usage usage
	ids   map[string]bool // of the calls so far
	// whole tells that the vendor has said how the response ends. Counts may follow.
	whole bool

	json, inner sse.JSON
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
	if err := d.inner.Field("usageMetadata", c.Usage, &d.usage); err != nil {
		return providers.EventError(providers.KindProtocol, raw.Data, err)
	}
	if c.Feedback.BlockReason != "" {
		d.done.StopReason, d.whole = providers.StopContentFilter, true
	}
	if len(c.Candidates) == 0 {
		return nil
	}
	// One candidate was asked for; of a server that sends more the first one is read.
	first := &c.Candidates[0]
	for _, p := range first.Content.Parts {
		d.piece(p)
	}
	if first.FinishReason == "" {
		return nil
	}
	reason, err := stop(first, raw.Data)
	if err != nil {
		return err
	}
	d.done.StopReason, d.whole = reason, true
	return nil
}

func (d *decoder) piece(p piece) {
	switch {
	case p.Call != nil:
		i := d.out.StartCall(d.callID(p.Call.ID, p.Call.Name), p.Call.Name)
		if sse.Given(p.Call.Args) {
			d.out.CallArguments(i, string(p.Call.Args))
		}
		d.out.EndCall(i, p.Signature)
	case p.Text == nil:
	case p.Thought:
		d.out.Reasoning(*p.Text, "")
		if p.Signature != "" {
			d.out.EndReasoning(signed(len(*p.Text), p.Signature))
		}
	default:
		d.out.Text(*p.Text)
		if p.Signature != "" {
			d.out.EndText(signed(len(*p.Text), p.Signature))
		}
	}
}

// callID returns the id of a call, and makes one where the vendor gives none, or one twice.
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

// stop tells how a response has ended.
func stop(c *candidate, raw []byte) (providers.StopReason, error) {
	switch c.FinishReason {
	case "STOP":
		return providers.StopStop, nil
	case "MAX_TOKENS", "CONTINUATION":
		return providers.StopLength, nil
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return providers.StopContentFilter, nil
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL":
		// The model wrote a call that is none, and may write a better one.
		e := providers.EventError(providers.KindOverloaded, raw, &providers.VendorError{Code: c.FinishReason, Message: c.FinishMessage})
		e.Status = http.StatusInternalServerError
		return "", e
	}
	return "", providers.EventError(providers.KindProtocol, raw, &providers.VendorError{Code: c.FinishReason, Message: c.FinishMessage})
}
