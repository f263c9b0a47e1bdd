package providers

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// report is a vendor's error, parsed by the position of its members.
type report struct {
	status  int      // HTTP status, 0 if there is none
	codes   []string // the most specific first
	message string
	// texts are the messages of the vendor and of the vendors behind a gateway.
	texts []string
}

// code returns the code to report, "" if there is none.
func (r report) code() string {
	if len(r.codes) == 0 {
		return ""
	}
	return r.codes[0]
}

// reportOf parses the error of a body: an object or text under "error", the first one of a list under
// "errors", or an object or text at the top, possibly in an array. A body that is neither JSON nor a
// page is used as the message.
func reportOf(body []byte) report {
	body = bytes.TrimSpace(firstElement(body))
	if !json.Valid(body) {
		if len(body) == 0 || body[0] == '<' {
			return report{}
		}
		return textReport(string(body[:min(len(body), MaxErrorBody)]))
	}
	var top struct {
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
		Message any             `json:"message"`
	}
	// A body that is not an object has no members.
	_ = json.Unmarshal(body, &top)
	inner := top.Error
	if !given(inner) && top.Message == nil {
		inner = firstElement(top.Errors)
	}
	if !given(inner) {
		return parseReport(body)
	}
	r, outer := parseReport(inner), parseReport(body)
	if r.status == 0 {
		r.status = outer.status
	}
	if r.message == "" {
		r.message, r.texts = outer.message, outer.texts
	}
	for _, code := range outer.codes {
		r.codes = appendCode(r.codes, code)
	}
	return r
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// appendCode appends a code unless it is empty. Prose in place of a code is kept only if there is no
// other code.
func appendCode(codes []string, code string) []string {
	if code == "" || len(codes) > 0 && strings.Contains(code, " ") {
		return codes
	}
	return append(codes, code)
}

// vendorObject has the members that vendors use for errors, of any type.
type vendorObject struct {
	Code       any `json:"code"`
	Type       any `json:"type"`
	Status     any `json:"status"`
	StatusCode any `json:"status_code"`
	HTTPStatus any `json:"http_status_code"`
	AWSType    any `json:"__type"`
	Message    any `json:"message"`
	Detail     any `json:"detail"`
	Metadata   any `json:"metadata"`
	Details    any `json:"details"` // Google: objects with a reason
	Errors     any `json:"errors"`  // older Google services: objects with a reason
}

// parseReport reads an error object or an error text. An upstream error embedded as JSON in a
// gateway's error adds its codes and message.
func parseReport(raw []byte) report {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return textReport(text)
	}
	var r report
	var o vendorObject
	if json.Unmarshal(raw, &o) != nil {
		return r
	}
	for _, v := range []any{o.StatusCode, o.HTTPStatus, o.Status, o.Code} {
		if s := statusIn(v); s != 0 {
			r.status = s
		}
	}
	aws, _ := o.AWSType.(string)
	aws = aws[strings.LastIndexByte(aws, '#')+1:] // without a namespace
	if n, ok := o.Code.(float64); ok && statusIn(n) == 0 {
		r.codes = append(r.codes, strconv.FormatFloat(n, 'f', -1, 64))
	}
	for _, v := range []any{o.Code, o.Type, aws, o.Status} {
		if code, _ := v.(string); statusIn(code) == 0 {
			r.codes = appendCode(r.codes, code)
		}
	}
	for _, list := range []any{o.Details, o.Errors} {
		r.codes = append(r.codes, reasons(list)...)
	}
	r.message, _ = o.Message.(string)
	if detail, ok := o.Detail.(string); ok && r.message == "" {
		r.message = detail
	}
	r = r.withText(r.message)
	if of, ok := o.Metadata.(map[string]any); ok {
		if cause, ok := of["raw"].(string); ok {
			r.message += "\n" + cause
			r = r.withText(cause)
		}
	}
	return r
}

// statusIn returns the HTTP status in a member, a number or numeric text, or 0.
func statusIn(v any) int {
	switch v := v.(type) {
	case float64:
		if v >= 100 && v < 600 {
			return int(v)
		}
	case string:
		if s, err := strconv.Atoi(v); err == nil && s >= 400 && s < 600 {
			return s
		}
	}
	return 0
}

// reasons returns the reasons of the objects of a list.
func reasons(list any) (codes []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			reason, _ := o["reason"].(string)
			codes = appendCode(codes, reason)
		}
	}
	return codes
}

func textReport(text string) report { return report{message: text}.withText(text) }

// withText returns r with a text and the error embedded as JSON at its end. The status of that error
// is used if r has none.
func (r report) withText(text string) report {
	if text == "" {
		return r
	}
	r.texts = append(r.texts, text)
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return r
	}
	raw := []byte(strings.TrimRight(text[at:], " .\n"))
	if !json.Valid(raw) {
		return r
	}
	inner := reportOf(raw)
	if inner.message == "" {
		return r
	}
	if r.status == 0 {
		r.status = inner.status
	}
	r.codes, r.texts = append(r.codes, inner.codes...), append(r.texts, inner.texts...)
	return r
}
