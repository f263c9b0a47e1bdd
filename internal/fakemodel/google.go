package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// google is Google's format, in which the path names the model and asks for a stream.
// Models that begin with "gemini-3" sign what they make, and check it.
type google struct {
	model    string
	streamed bool
}

// googleCall has all members that the vendor takes of those that are known here: it refuses
// others.
type googleCall struct {
	System googleContent `json:"systemInstruction"`
	Tools  []struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Generation struct {
		Temperature float64  `json:"temperature"`
		Stop        []string `json:"stopSequences"`
		MaxTokens   int      `json:"maxOutputTokens"`
		Thinking    struct {
			Include bool   `json:"includeThoughts"`
			Level   string `json:"thinkingLevel"`
			Budget  *int   `json:"thinkingBudget"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
	Contents []googleContent `json:"contents"`
}

type googleContent struct {
	Role  string       `json:"role"`
	Parts []googlePart `json:"parts"`
}

type googlePart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Image     *struct {
		MimeType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Response struct {
			Output string `json:"output"`
			Error  string `json:"error"`
		} `json:"response"`
		Parts []googlePart `json:"parts"`
	} `json:"functionResponse"`
}

const (
	googleModel = "model"
	// googleSkips is what a call that the model has not made may have for a signature.
	googleSkips = "skip_thought_signature_validator"
)

// errSignature is in the vendor's own words.
var errSignature = errors.New("thought signature is not valid")

// googleOf reads the last element of a path: a model and a method.
func googleOf(element string) (google, bool) {
	model, method, _ := strings.Cut(element, ":")
	return google{model: model, streamed: method == "streamGenerateContent"}, method == "streamGenerateContent" || method == "generateContent"
}

func (m *Model) answerGoogle(w http.ResponseWriter, r *http.Request) {
	g, ok := googleOf(r.PathValue("call"))
	switch {
	case !ok:
		writeJSON(w, http.StatusNotFound, g.failure(http.StatusNotFound, "no such method"))
	case g.streamed && r.URL.Query().Get("alt") != "sse":
		writeJSON(w, http.StatusBadRequest, g.failure(http.StatusBadRequest, "alt=sse is missing: the answer would be an array"))
	default:
		m.answer(w, r, g)
	}
}

// grant answers as the metadata server of the vendor's machines does.
func (m *Model) grant(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "the header Metadata-Flavor is missing", http.StatusForbidden)
		return
	}
	token := m.options.Key
	if token == "" {
		token = "token"
	}
	writeJSON(w, http.StatusOK, object{"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
}

func (google) key(h http.Header) string {
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

func (g google) signs() bool { return strings.HasPrefix(g.model, "gemini-3") }

func (g google) decode(body []byte) (*prompt, error) {
	var c googleCall
	if err := strictly(body, &c); err != nil {
		return nil, err
	}
	p := &prompt{model: g.model, stream: g.streamed, maxTokens: c.Generation.MaxTokens, effort: c.Generation.Thinking.Level}
	if budget := c.Generation.Thinking.Budget; budget != nil {
		p.effort = strconv.Itoa(*budget)
	}
	for _, t := range c.Tools {
		for _, f := range t.Functions {
			p.tools = append(p.tools, f.Name)
		}
	}
	for _, part := range c.System.Parts {
		if part.Text != nil {
			p.system += *part.Text
		}
	}
	before := ""
	for i, content := range c.Contents {
		err := errors.New("parts are missing")
		switch {
		case len(content.Parts) == 0:
		case content.Role == googleModel:
			err = p.addReply(g, content.Parts, before == googleModel)
		case content.Role == sideUser:
			err = p.addContent(g, content.Parts)
		default:
			err = fmt.Errorf("unknown role %q", content.Role)
		}
		if err != nil {
			return nil, fmt.Errorf("content %d: %w", i, err)
		}
		before = content.Role
	}
	return p, nil
}

// addReply makes a turn of what the model said.
func (p *prompt) addReply(g google, parts []googlePart, repeats bool) error {
	t := turn{side: sideAssistant}
	for _, part := range parts {
		if part.Text == nil && part.Signature != "" {
			part.Text = new("") // as an empty one
		}
		switch {
		case part.Call != nil:
			c, err := g.call(part, len(t.calls))
			if err != nil {
				return err
			}
			t.calls = append(t.calls, c)
		case part.Text == nil:
			return errors.New("unknown part of the model")
		case *part.Text == "" && part.Signature == "":
			return errors.New("text is empty")
		case part.Signature != "" && part.Signature != sign(*part.Text):
			return errSignature
		case !part.Thought && *part.Text != "":
			t.texts = append(t.texts, *part.Text)
		}
	}
	if repeats && len(t.calls) > 0 {
		return errors.New("function call turn must come immediately after a user turn or after a function response turn")
	}
	p.turns = append(p.turns, t)
	return nil
}

// call reads the n-th call of a reply. Those without an id get one by their place.
func (g google) call(part googlePart, n int) (call, error) {
	args := part.Call.Args
	if len(args) == 0 { // some clients leave out what is empty
		args = json.RawMessage("{}")
	}
	c := call{part.Call.ID, part.Call.Name, string(args)}
	switch wanted := signCall(c.name, args); {
	case !strings.HasPrefix(c.args, "{"):
		return c, fmt.Errorf("args of call %q are no object", c.name)
	case g.signs() && !plainID.MatchString(c.id):
		return c, fmt.Errorf("call %q has no id, or none that is plain", c.name)
	case strings.HasPrefix(g.model, "gemini-2") && c.id != "":
		return c, fmt.Errorf("unknown name \"id\" at call %q", c.name)
	case g.signs() && n == 0 && part.Signature == "":
		return c, fmt.Errorf("function call %q is missing a thought_signature", c.name)
	case part.Signature != "" && part.Signature != wanted && part.Signature != googleSkips:
		return c, errSignature
	}
	if c.id == "" {
		c.id = strconv.Itoa(n)
	}
	return c, nil
}

// signCall signs a call, however its arguments are written.
func signCall(name string, args json.RawMessage) string {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return ""
	}
	return sign(name + string(encode(v)))
}

// addContent makes turns of a content of the user: results, images of such, or a message.
func (p *prompt) addContent(g google, parts []googlePart) error {
	if parts[0].Response != nil {
		return p.addResponses(g, parts)
	}
	t := turn{side: sideUser}
	err := t.addParts(parts)
	p.add(t)
	return err
}

func (p *prompt) addResponses(g google, parts []googlePart) error {
	var open []call
	if n := len(p.turns); n > 0 {
		open = p.turns[n-1].calls
	}
	if len(parts) != len(open) {
		return errors.New("the number of function response parts is not equal to the number of function call parts of the function call turn")
	}
	for i, part := range parts {
		r := part.Response
		if r == nil || r.Name != open[i].name || (r.ID == "") == g.signs() {
			return fmt.Errorf("part %d is no response of %q", i, open[i].name)
		}
		t := turn{side: sideTool, result: r.ID, texts: []string{r.Response.Output + r.Response.Error}}
		if r.ID == "" {
			t.result = open[i].id
		}
		if len(r.Parts) > 0 && !g.signs() {
			return errors.New("function responses of this model take no parts")
		}
		if err := t.addParts(r.Parts); err != nil {
			return err
		}
		p.turns = append(p.turns, t)
	}
	return nil
}

func (t *turn) addParts(parts []googlePart) error {
	for _, part := range parts {
		switch {
		case part.Image != nil:
			if err := t.show(part.Image.MimeType, part.Image.Data); err != nil {
				return err
			}
		case part.Text == nil || *part.Text == "":
			return errors.New("part has no text")
		default:
			t.texts = append(t.texts, *part.Text)
		}
	}
	return nil
}

func (google) failure(status int, message string) any {
	return object{"error": object{"code": status, "message": message, "status": googleStatus(status)}}
}

// googleStatus names an error by its status.
func googleStatus(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	}
	return "UNAVAILABLE"
}

func googleFinish(finish string) string {
	switch finish {
	case finishLength:
		return "MAX_TOKENS"
	case finishFilter:
		return "SAFETY"
	}
	return "STOP"
}

func (g google) whole(p *prompt, a *answer) any {
	var parts []object
	if a.thoughts != "" {
		parts = append(parts, object{"text": a.thoughts, "thought": true})
	}
	if a.content != "" {
		parts = append(parts, object{"text": a.content})
	}
	for i, c := range a.calls {
		parts = append(parts, g.functionCall(i, c.id, c.name, c.args))
	}
	return g.chunk(p, parts, a.finish, &a.usage)
}

// functionCall is the part of the i-th call of a response. Older models give no ids.
func (g google) functionCall(i int, id, name, arguments string) object {
	c := object{"name": name, "args": json.RawMessage(arguments)}
	if !strings.HasPrefix(g.model, "gemini-2") {
		c["id"] = id
	}
	part := object{"functionCall": c}
	if g.signs() && i == 0 {
		part["thoughtSignature"] = signCall(name, json.RawMessage(arguments))
	}
	return part
}

// chunk is one event of a response, or all of it.
func (google) chunk(p *prompt, parts []object, finish string, u *usage) object {
	c := object{"index": 0}
	if parts != nil {
		c["content"] = object{"role": googleModel, "parts": parts}
	}
	if finish != "" {
		c["finishReason"] = googleFinish(finish)
	}
	out := object{"candidates": []object{c}, "modelVersion": p.model, "responseId": p.id()}
	if u != nil {
		out["usageMetadata"] = object{
			"promptTokenCount": u.input, "candidatesTokenCount": u.output - u.reasoning, "thoughtsTokenCount": u.reasoning,
			"totalTokenCount": u.input + u.output,
		}
	}
	return out
}

func (g google) stream(w *sender, p *prompt) voice { return &googleVoice{of: g, w: w, p: p} }

// googleVoice streams one response. Calls come whole; text is signed at its end.
type googleVoice struct {
	of    google
	w     *sender
	p     *prompt
	calls int
	said  bool
}

func (v *googleVoice) parts(parts ...object) { v.w.event("", v.of.chunk(v.p, parts, "", nil)) }

func (v *googleVoice) text(s string) {
	v.said = true
	v.parts(object{"text": s})
}

func (v *googleVoice) reasoning(s string) { v.parts(object{"text": s, "thought": true}) }

func (v *googleVoice) call(id, name, arguments string) {
	v.parts(v.of.functionCall(v.calls, id, name, arguments))
	v.calls++
}

func (v *googleVoice) fail(message string) {
	v.w.event("", v.of.failure(http.StatusInternalServerError, message))
}

func (v *googleVoice) end(finish string, u usage) {
	var parts []object
	if v.of.signs() && v.said {
		parts = []object{{"text": "", "thoughtSignature": sign("")}}
	}
	v.w.event("", v.of.chunk(v.p, parts, finish, &u))
}
