package fakemodel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// google is Google's format. The path names the model and selects streaming. Models whose names begin
// with "gemini-3" sign their output and verify the signatures.
var google = newVendor("google", vendor{
	read: func(p *prompt, c any) error {
		before := ""
		for i, content := range list(c, "contents") {
			role, parts, err := text(content, "role"), list(content, "parts"), error(nil)
			switch {
			case len(parts) == 0:
				err = errors.New("parts are missing")
			case role == googleModel:
				err = p.addReply(parts, before == googleModel)
			case role != sideUser:
				err = fmt.Errorf("unknown role %q", role)
			case has(parts[0], "functionResponse"):
				err = p.addResponses(parts)
			default:
				t := turn{side: sideUser}
				err = t.each(parts, t.addPart)
				p.add(t)
			}
			if err != nil {
				return fmt.Errorf("content %d: %w", i, err)
			}
			before = role
		}
		return nil
	},
	fill: func(a *answer, b *block, name string) string {
		switch {
		case name == "numbered" && a.p.numbers():
			return `"id":` + quote(b.id) + `,`
		case name == "sealed" && a.p.signs() && a.content(blockText) != "":
			return `"content":{"role":"model","parts":[{"text":"","thoughtSignature":` + quote(sign("")) + `}]},`
		case name == "signed" && a.p.signs() && b.number == 0: // the first call
			var args any
			_ = json.Unmarshal(b.content, &args) // Arguments in scripts are objects.
			return `,"thoughtSignature":` + quote(signCall(b.name, args))
		}
		return ""
	},
})

const (
	googleModel = "model"
	// googleSkips is the accepted signature of a call that another model made.
	googleSkips = "skip_thought_signature_validator"
)

// signCall signs a call, independent of the encoding of its arguments.
func signCall(name string, args any) string { return sign(name + string(encode(args))) }

// errSignature has the vendor's wording.
var errSignature = errors.New("thought signature is not valid")

func (m *Model) answerGoogle(w http.ResponseWriter, r *http.Request) {
	model, method, _ := strings.Cut(r.PathValue("call"), ":")
	streamed := method == "streamGenerateContent"
	switch {
	case !streamed && method != "generateContent":
		writeJSON(w, http.StatusNotFound, google.failure(http.StatusNotFound, "no such method"))
	case streamed && r.URL.Query().Get("alt") != "sse":
		writeJSON(w, http.StatusBadRequest, google.failure(http.StatusBadRequest, "alt=sse is missing: the answer would be an array"))
	default:
		m.answer(w, r, google, &prompt{model: model, stream: streamed})
	}
}

// grant implements the metadata server of the vendor's machines.
func (m *Model) grant(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "header Metadata-Flavor is missing", http.StatusForbidden)
		return
	}
	writeJSON(w, http.StatusOK, object{"access_token": cmp.Or(m.options.Key, "token"), "expires_in": 3599, "token_type": "Bearer"})
}

// signs reports whether the model signs its output, numbers whether its calls have ids.
func (p *prompt) signs() bool   { return strings.HasPrefix(p.model, "gemini-3") }
func (p *prompt) numbers() bool { return !strings.HasPrefix(p.model, "gemini-2") }

// addReply converts model output to a turn.
func (p *prompt) addReply(parts []any, repeats bool) error {
	t := turn{side: sideAssistant}
	for _, part := range parts {
		reply, signature := text(part, "text"), text(part, "thoughtSignature")
		switch {
		case has(part, "functionCall"):
			c, err := p.googleCall(get(part, "functionCall"), signature, len(t.calls))
			if err != nil {
				return err
			}
			t.calls = append(t.calls, c)
		case !has(part, "text") && signature == "":
			return errors.New("unknown part of the model")
		case reply == "" && signature == "":
			return errors.New("text is empty")
		case signature != "" && signature != sign(reply):
			return errSignature
		case get(part, "thought") != true && reply != "":
			t.texts = append(t.texts, reply)
		}
	}
	if repeats && len(t.calls) > 0 {
		return errors.New("function call turn must come immediately after a user turn or after a function response turn")
	}
	p.turns = append(p.turns, t)
	return nil
}

// googleCall decodes the n-th call of a reply. A call without an id gets one from its position.
func (p *prompt) googleCall(part any, signature string, n int) (call, error) {
	args := get(part, "args")
	if args == nil { // some clients omit empty arguments
		args = object{}
	}
	c := call{text(part, "id"), text(part, "name"), string(encode(args))}
	switch _, ok := args.(object); {
	case !ok:
		return c, fmt.Errorf("args of call %q are not an object", c.name)
	case p.signs() && !plainID.MatchString(c.id):
		return c, fmt.Errorf("call %q has no valid id", c.name)
	case !p.numbers() && c.id != "":
		return c, fmt.Errorf("unknown name \"id\" at call %q", c.name)
	case p.signs() && n == 0 && signature == "":
		return c, fmt.Errorf("function call %q is missing a thought_signature", c.name)
	case signature != "" && signature != signCall(c.name, args) && signature != googleSkips:
		return c, errSignature
	}
	c.id = cmp.Or(c.id, strconv.Itoa(n))
	return c, nil
}

// addResponses converts the results of all calls of the last reply to turns.
func (p *prompt) addResponses(parts []any) error {
	var open []call
	if n := len(p.turns); n > 0 {
		open = p.turns[n-1].calls
	}
	if len(parts) != len(open) {
		return errors.New("the number of function response parts is not equal to the number of function call parts of the function call turn")
	}
	for i, part := range parts {
		r := get(part, "functionResponse")
		id, inner := text(r, "id"), list(r, "parts")
		switch {
		case r == nil || text(r, "name") != open[i].name || (id == "") == p.signs():
			return fmt.Errorf("part %d is not a response of %q", i, open[i].name)
		case len(inner) > 0 && !p.signs():
			return errors.New("function responses of this model must not have parts")
		}
		t := turn{side: sideTool, result: cmp.Or(id, open[i].id), texts: []string{text(r, "response.output") + text(r, "response.error")}}
		if err := t.each(inner, t.addPart); err != nil {
			return err
		}
		p.turns = append(p.turns, t)
	}
	return nil
}

func (t *turn) addPart(part any) error {
	if has(part, "inlineData") {
		return t.show(text(part, "inlineData.mimeType"), text(part, "inlineData.data"))
	}
	if text(part, "text") == "" {
		return errors.New("part has no text")
	}
	t.texts = append(t.texts, text(part, "text"))
	return nil
}
