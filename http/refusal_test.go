package http_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
)

// refusals are bodies that return invalid_request, and a word of the details.
func refusals() []struct{ name, body, details string } {
	image := func(old, new string) string { return withAttachments("", strings.Replace(pngJSON, old, new, 1)) }
	return []struct{ name, body, details string }{
		{"body_bare_string", `"hello"`, "object"},
		{"body_array", `[]`, "object"},
		{"body_null", `null`, "object"},
		{"body_number", `-0.5e+1`, "object"},
		{"nested_message", `{"message":{"kind":"user","body":"x"}}`, "nested"},
		{"kind_missing", `{"body":"x"}`, "kind"},
		{"kind_unknown", `{"kind":"User","body":"x"}`, "kind"},
		{"kind_not_string", `{"kind":1,"body":"x"}`, "kind"},
		{"text_missing", `{"kind":"user"}`, "body"},
		{"text_null", `{"kind":"user","body":null}`, "body"},
		{"text_object", `{"kind":"signal","type":"t","body":{}}`, "body"},
		{"signal_type_missing", `{"kind":"signal","body":"x"}`, "type"},
		{"signal_type_empty", `{"kind":"signal","body":"x","type":""}`, "type"},
		{"signal_type_not_string", `{"kind":"signal","body":"x","type":1}`, "type"},
		{"attributes_null", `{"kind":"signal","body":"x","type":"t","attributes":null}`, "attributes"},
		{"attributes_array", `{"kind":"signal","body":"x","type":"t","attributes":[]}`, "attributes"},
		{"attributes_number", `{"kind":"signal","body":"x","type":"t","attributes":{"a":1}}`, "attributes"},
		{"attributes_last_of_a_name", `{"kind":"signal","body":"x","type":"t","attributes":{"a":"1","a":2}}`, "\"a\""},
		{"attributes_null_value", `{"kind":"signal","body":"x","type":"t","attributes":{"a":null}}`, "attributes"},
		{"tagName_empty", `{"kind":"signal","body":"x","type":"t","tagName":""}`, "tagName"},
		{"tagName_digit_first", `{"kind":"signal","body":"x","type":"t","tagName":"1a"}`, "tagName"},
		{"tagName_with_colon", `{"kind":"signal","body":"x","type":"t","tagName":"a:b"}`, "tagName"},
		{"tagName_dash_first", `{"kind":"signal","body":"x","type":"t","tagName":"-a"}`, "tagName"},
		{"tagName_with_space", `{"kind":"signal","body":"x","type":"t","tagName":"a b"}`, "tagName"},
		{"tagName_line_break", `{"kind":"signal","body":"x","type":"t","tagName":"a\n"}`, "tagName"},
		{"tagName_letter_outside_ascii", `{"kind":"signal","body":"x","type":"t","tagName":"aé"}`, "tagName"},
		{"tagName_null", `{"kind":"signal","body":"x","type":"t","tagName":null}`, "tagName"},
		{"uid_number", `{"kind":"user","body":"x","uid":1}`, "uid"},
		{"uid_object", `{"kind":"user","body":"x","uid":{}}`, "uid"},
		{"uid_with_initialData", `{"kind":"user","body":"x","uid":"a","initialData":{}}`, "initialData"},
		{"uid_with_initialData_null", `{"kind":"user","body":"x","initialData":null,"uid":""}`, "initialData"},
		{"key_empty", `{"kind":"user","body":"x","idempotencyKey":""}`, "idempotencyKey"},
		{"key_null", `{"kind":"user","body":"x","idempotencyKey":null}`, "idempotencyKey"},
		{"attachments_null", `{"kind":"user","body":"x","attachments":null}`, "attachments"},
		{"attachments_object", `{"kind":"user","body":"x","attachments":{}}`, "attachments"},
		{"attachment_not_object", withAttachments("", pngJSON, `"x"`), "attachments[1]"},
		{"attachment_type_missing", image(`"type":"image",`, ""), "attachments[0].type"},
		{"attachment_type_other", image(`"image",`, `"file",`), "attachments[0].type"},
		{"attachment_data_missing", image(`"data":"iVBORw0KGgo=",`, ""), "attachments[0].data"},
		{"attachment_data_null", image(`"iVBORw0KGgo="`, "null"), "attachments[0].data"},
		{"attachment_mimeType_missing", image(`,"mimeType":"image/png"`, ""), "attachments[0].mimeType"},
		{"attachment_mimeType_empty", image("image/png", ""), "attachments[0].mimeType"},
		{"attachment_mimeType_no_slash", image("image/png", "png"), "attachments[0].mimeType"},
		{"attachment_mimeType_space_before", image("image/png", " image/png"), "attachments[0].mimeType"},
		{"attachment_mimeType_space_after", image("image/png", "image/png "), "attachments[0].mimeType"},
		{"attachment_mimeType_line_break", image("image/png", `image/png\r\nX: y`), "attachments[0].mimeType"},
		{"attachment_mimeType_not_ascii", image("image/png", `image/png; a=\"é\"`), "attachments[0].mimeType"},
		{"attachment_mimeType_bad_parameter", image("image/png", `image/png; a`), "attachments[0].mimeType"},
		{"attachment_mimeType_long", image("image/png", "image/"+strings.Repeat("p", 250)), "attachments[0].mimeType"},
		{"attachment_filename_null", image(`"a.png"`, "null"), "attachments[0].filename"},
		{"attachment_filename_long", image("a.png", strings.Repeat("é", 512)+"a"), "at most 1024"},
		{"data_empty", withAttachments("", pngJSON, strings.Replace(pngJSON, "iVBORw0KGgo=", "", 1)), "attachments[1].data"},
		{"base64_unpadded", image("Ggo=", "Ggo"), "base64"},
		{"base64_url_alphabet", image("iVBO", "-_BO"), "base64"},
		{"base64_line_break", image("iVBO", `iVBO\r\n`), "base64"},
		{"base64_line_feed", image("iVBO", `iVBO\n`), "base64"},
		{"base64_space", image("iVBO", `iVBO `), "base64"},
		{"base64_padding_inside", image("iVBO", "iVB="), "base64"},
		{"base64_bits_left_over", image("Ggo=", "Ggp="), "base64"},
		{"base64_not_ascii", image("iVBO", "iVé"), "base64"},
		{"base64_text_after_padding_chunk", image("iVBORw0KGgo=", strings.Repeat("A", 32<<10-4)+"AA=="+"AAAA"), "base64"},
	}
}

// covers: protocol/175, protocol/17 kind_missing, protocol/17 kind_unknown, protocol/18 text_missing
// covers: protocol/18 text_object, protocol/21 attachments_object, protocol/22 signal_type_empty
// covers: protocol/22 signal_type_missing, protocol/23 attributes_number, protocol/24 tagName_digit_first
// covers: protocol/24 tagName_with_colon, protocol/29 uid_number, protocol/30 attachment_type_missing
// covers: protocol/30 attachment_type_other, protocol/31 attachment_data_null, protocol/31 base64_unpadded
// covers: protocol/34 attachment_mimeType_line_break, protocol/34 attachment_mimeType_missing
// covers: protocol/35 attachment_filename_long, protocol/35 attachment_filename_null, protocol/42 uid_with_initialData
// covers: protocol/42 uid_with_initialData_null, protocol/44 body_array, protocol/44 body_bare_string
// covers: upgrade/5 nested_message
func TestAdmissionRefused(t *testing.T) {
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, nil)
			e := wantError(t, h.post("/c1", tt.body), 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, tt.details) {
				t.Errorf("got details %q, want %q", e.Details, tt.details)
			}
			if h.rt.calls != nil {
				t.Errorf("got runtime calls %v, want none", h.rt.calls)
			}
			if got := h.leftovers(); got != nil {
				t.Errorf("got leftovers %v", got)
			}
		})
	}
}

// covers: protocol/55
func TestAdmissionInvalidJSON(t *testing.T) {
	for name, body := range map[string]string{
		"empty":             "",
		"white_space":       " \r\n\t",
		"mark_alone":        "\ufeff",
		"cut":               `{"kind":"user","body":"x"`,
		"cut_string":        `{"kind":"user","body":"x`,
		"garbage_after":     hello + "x",
		"second_value":      hello + hello,
		"single_quotes":     `{'kind':'user'}`,
		"trailing_comma":    `{"kind":"user","body":"x",}`,
		"control_character": "{\"kind\":\"user\",\"body\":\"a\nb\"}",
		"bad_escape":        `{"kind":"user","body":"\x"}`,
		"bad_unicode":       `{"kind":"user","body":"\u12g4"}`,
		"number_leading_0":  `{"kind":"user","body":"x","n":01}`,
		"bare_word":         `hello`,
		"number_lone_minus": `-`,
		"number_bad_minus":  `-x`,
		"number_no_digit":   `[1.]`,
		"number_no_power":   `[1e+]`,
		"literal_cut":       `tru`,
		"literal_other":     `[nulL]`,
		"member_no_colon":   `{"a" 1}`,
		"member_no_value":   `{"a":}`,
		"member_no_name":    `{"a":1,2}`,
		"array_cut":         `[1,`,
		"array_two_values":  `[1 2]`,
		"escape_cut":        `"\`,
		"unicode_cut":       `"\u12`,
		"two_marks":         "\ufeff\ufeff" + hello,
		// The syntax of the whole body is checked before its shape.
		"after_shape_error": `{"kind":"nonsense"`,
		"too_deep":          strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			wantError(t, h.post("/c1", body), 400, conversation.CodeInvalidJSON)
			if h.rt.calls != nil {
				t.Errorf("got runtime calls %v, want none", h.rt.calls)
			}
		})
	}
}

// covers: protocol/54
func TestAdmissionMediaType(t *testing.T) {
	for value, want := range map[string]int{
		"application/json": 202, "Application/JSON": 202, "application/json; charset=utf-8": 202,
		"application/json;": 202, "application/json; charset": 202,
		"text/plain": 415, "application/vnd.api+json": 415, "application/jsonx": 415,
		"text/plain, application/json": 415, "application/x-www-form-urlencoded": 415, "": 415, ";": 415,
	} {
		t.Run(value, func(t *testing.T) {
			r := newPost("/c1", strings.NewReader(hello))
			r.Header.Set("Content-Type", value)
			res := newHarness(t, nil).serve(r)
			if wantStatus(t, res, want); want == 415 {
				wantError(t, res, 415, conversation.CodeUnsupportedMediaType)
			}
		})
	}
	for value, want := range map[string]conversation.Code{
		"": conversation.CodeUnsupportedMediaType, "text/plain": conversation.CodeUnsupportedMediaType,
		"application/json": conversation.CodeInvalidJSON,
	} {
		t.Run("no_body_of_"+value, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/agents/assistant/c1", nil)
			if value != "" {
				r.Header.Set("Content-Type", value)
			}
			status := map[conversation.Code]int{conversation.CodeUnsupportedMediaType: 415, conversation.CodeInvalidJSON: 400}
			wantError(t, newHarness(t, nil).serve(r), status[want], want)
		})
	}
}

// TestAdmissionOrder sends requests that fail every check from a certain one on.
// covers: protocol/188
func TestAdmissionOrder(t *testing.T) {
	const contradiction = `{"kind":"user","body":"x","uid":"u","initialData":1,"idempotencyKey":"k"}`
	for _, tt := range []struct {
		name, method, path, media, body string
		status                          int
		code                            conversation.Code
	}{
		{"1_method", "PUT", "/%20?wait", "text/plain", "{", 405, conversation.CodeMethodNotAllowed},
		{"2_blank_id", "POST", "/%20?wait", "text/plain", "{", 400, conversation.CodeInvalidRequest},
		{"3_wait", "POST", "/c1?wait", "text/plain", "{", 400, conversation.CodeInvalidRequest},
		{"4_media_type", "POST", "/c1", "text/plain", "{", 415, conversation.CodeUnsupportedMediaType},
		{"5_json", "POST", "/c1", "application/json", "{", 400, conversation.CodeInvalidJSON},
		{"6_shape", "POST", "/c1", "application/json", `{"uid":"u","initialData":1}`, 400, conversation.CodeInvalidRequest},
		{"7_uid_and_initialData", "POST", "/c1", "application/json", contradiction, 400, conversation.CodeInvalidRequest},
		{"8_dispatcher", "POST", "/c1", "application/json", `{"kind":"user","body":"x","uid":"u"}`, 404, conversation.CodeInstanceNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "/agents/assistant"+tt.path, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.media)
			wantError(t, newHarness(t, nil).serve(r), tt.status, tt.code)
		})
	}
}

// covers: protocol/45, upgrade/7
func TestAdmissionWait(t *testing.T) {
	for _, query := range []string{"wait", "wait=", "wait=true", "a=b&wait=%zz", "%77ait=1", "a;b&wait"} {
		t.Run(query, func(t *testing.T) {
			r := newPost("/c1", strings.NewReader(hello))
			r.URL.RawQuery = query
			e := wantError(t, newHarness(t, nil).serve(r), 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, "wait") {
				t.Errorf("got details %q", e.Details)
			}
		})
	}
}

// covers: protocol/194
func TestAdmissionLimits(t *testing.T) {
	small := func(o *parleyhttp.Options) { o.MaxBodyBytes, o.MaxTextBytes, o.MaxAttachments = 2000, 100, 2 }
	text := func(n int) string { return fmt.Sprintf(`{"kind":"user","body":%q}`, strings.Repeat("x", n)) }
	spaces := func(n int) string { return hello + strings.Repeat(" ", n-len(hello)) }
	key := func(n int) string {
		return fmt.Sprintf(`{"kind":"user","body":"x","idempotencyKey":%q}`, strings.Repeat("é", n))
	}
	data := func(n int) string {
		return `{"kind":"user","body":"x","initialData":"` + strings.Repeat("x", n-2) + `"}`
	}
	attributes := func(n int) string {
		return `{"kind":"signal","body":"","type":"t","attributes":{"a":"` + strings.Repeat("x", n-8) + `"}}`
	}
	for _, tt := range []struct {
		name    string
		change  func(*parleyhttp.Options)
		at, out string // at the limit and over it
		limit   string
	}{
		{"request_body", small, spaces(2000), spaces(2001), "2000"},
		{"text", small, text(100), text(101), "100"},
		{"text_default", nil, text(4 << 20), text(4<<20 + 1), "4194304"},
		{"text_in_bytes", small, text(98) + " ", strings.Replace(text(98), "x", "éé", 1), "100"},
		{"idempotency_key", nil, key(256), key(257), "256"},
		{"initialData", small, data(94), data(95), "100"},            // kind takes 6
		{"attributes", small, attributes(89), attributes(90), "100"}, // kind and type take 11
		{"attachments", small, withAttachments("", `{"type":"image","mimeType":"a/b","data":"eA=="}`, `{"type":"image","mimeType":"a/b","data":"eA=="}`),
			withAttachments("", strings.Repeat(`{"type":"image","mimeType":"a/b","data":"eA=="},`, 2)+"{}"), "2"},
		{"attachments_default", nil, withAttachments("", strings.Repeat(pngJSON+",", 15)+pngJSON),
			withAttachments("", strings.Repeat(pngJSON+",", 16)+pngJSON), "16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t, tt.change)
			wantStatus(t, h.post("/c1", tt.at), http.StatusAccepted)
			h.rt.calls = nil
			e := wantError(t, h.post("/c1", tt.out), 400, conversation.CodeInvalidRequest)
			if !strings.Contains(e.Details, tt.limit) {
				t.Errorf("got details %q, want the limit %s", e.Details, tt.limit)
			}
			if got, left := h.rt.wrote(), h.leftovers(); got != nil || left != nil {
				t.Errorf("got writes %v, leftovers %v", got, left)
			}
		})
	}
	t.Run("request_body_of_unknown_length", func(t *testing.T) {
		h := newHarness(t, small)
		e := wantError(t, h.serve(newPost("/c1", io.MultiReader(strings.NewReader(spaces(2001))))), 400, conversation.CodeInvalidRequest)
		if !strings.Contains(e.Details, "2000") {
			t.Errorf("got details %q", e.Details)
		}
	})
}

func TestAdmissionBodyBreaksOff(t *testing.T) {
	t.Run("client_error_is_400", func(t *testing.T) {
		h := newHarness(t, func(o *parleyhttp.Options) { o.MemoryBytes = 1 })
		body := io.MultiReader(strings.NewReader(hello), iotest.ErrReader(errors.New("secret")))
		e := wantError(t, h.serve(newPost("/c1", body)), 400, conversation.CodeInvalidRequest)
		if strings.Contains(e.Details, "secret") {
			t.Errorf("got details %q", e.Details)
		}
		if got := h.leftovers(); got != nil || h.rt.calls != nil {
			t.Errorf("got leftovers %v, runtime calls %v", got, h.rt.calls)
		}
	})
}
