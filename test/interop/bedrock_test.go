package interop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
	ours "github.com/parleyrun/parley/providers/eventstream"
)

// framed encodes a transcript of lines "type payload" with the vendor's encoder.
func framed(t *testing.T, lines string) string {
	t.Helper()
	var out bytes.Buffer
	for line := range strings.Lines(lines) {
		kind, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		m := eventstream.Message{Payload: []byte(payload)}
		for _, h := range [][2]string{{":event-type", kind}, {":content-type", "application/json"}, {":message-type", "event"}} {
			m.Headers.Set(h[0], eventstream.StringValue(h[1]))
		}
		if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// members lists the member types of the SDK's unions.
func members() []any {
	return []any{
		types.SystemContentBlockMemberText{}, types.SystemContentBlockMemberCachePoint{},
		types.ContentBlockMemberText{}, types.ContentBlockMemberImage{}, types.ContentBlockMemberReasoningContent{}, types.ContentBlockMemberToolUse{},
		types.ContentBlockMemberToolResult{}, types.ContentBlockMemberCachePoint{},
		types.ImageSourceMemberBytes{}, types.ReasoningContentBlockMemberReasoningText{}, types.ReasoningContentBlockMemberRedactedContent{},
		types.ToolResultContentBlockMemberText{}, types.ToolResultContentBlockMemberImage{},
		types.ToolMemberToolSpec{}, types.ToolInputSchemaMemberJson{}, types.ToolChoiceMemberAny{}, types.ToolChoiceMemberTool{},
	}
}

// fill decodes JSON into a value of the SDK, whose types do not implement it.
func fill(to reflect.Value, from any) error {
	switch {
	case to.Type() == reflect.TypeFor[document.Interface]():
		to.Set(reflect.ValueOf(document.NewLazyDocument(from)))
		return nil
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return fill(to.Elem(), from)
	}
	switch from := from.(type) {
	case map[string]any:
		for name, v := range from {
			if err := fillMember(to, strings.ToUpper(name[:1])+name[1:], v); err != nil {
				return fmt.Errorf("%s.%w", name, err)
			}
		}
	case []any:
		if to.Kind() != reflect.Slice {
			return fmt.Errorf("is a list where the SDK has %s", to.Type())
		}
		to.Set(reflect.MakeSlice(to.Type(), len(from), len(from)))
		for i, v := range from {
			if err := fill(to.Index(i), v); err != nil {
				return err
			}
		}
	case string:
		if to.Type() == reflect.TypeFor[[]byte]() {
			raw, err := base64.StdEncoding.DecodeString(from)
			to.SetBytes(raw)
			return err
		}
		to.SetString(from)
	case float64:
		if to.CanInt() {
			to.SetInt(int64(math.Round(from)))
			return nil
		}
		to.SetFloat(from)
	default:
		return fmt.Errorf("is %T where the SDK has %s", from, to.Type())
	}
	return nil
}

// fillMember sets a member of a struct, or of a union, which is an interface.
func fillMember(to reflect.Value, name string, v any) error {
	if to.Kind() == reflect.Struct {
		f := to.FieldByName(name)
		if !f.IsValid() {
			return fmt.Errorf("is not a member of %s", to.Type())
		}
		return fill(f, v)
	}
	for _, m := range members() {
		if of := reflect.New(reflect.TypeOf(m)); of.Type().AssignableTo(to.Type()) && of.Elem().Type().Name() == to.Type().Name()+"Member"+name {
			to.Set(of)
			return fill(of.Elem().FieldByName("Value"), v)
		}
	}
	return fmt.Errorf("is not a member of %s", to.Type())
}

// converseInput decodes a request to the SDK's type.
func converseInput(body []byte) (*bedrockruntime.ConverseStreamInput, error) {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, err
	}
	in := &bedrockruntime.ConverseStreamInput{}
	return in, fill(reflect.ValueOf(in).Elem(), v)
}

func bedrock(base string, client *http.Client) *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: &base, HTTPClient: client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "secret"}, nil
		}),
	})
}

// knownToBedrock decodes a call with the SDK and returns the SDK's encoding.
func knownToBedrock(body []byte) ([]byte, error) {
	in, err := converseInput(body)
	if err != nil {
		return nil, err
	}
	in.ModelId = aws.String("m")
	v := &vendor{answers: []string{""}}
	out, err := bedrock("https://interop.example", &http.Client{Transport: v}).ConverseStream(context.Background(), in)
	if err != nil {
		return nil, err
	}
	return v.asked[0].Body, out.GetStream().Close()
}

func readByBedrock(t *testing.T, base string, body []byte) (r reading) {
	t.Helper()
	in, err := converseInput(body)
	if err != nil {
		t.Fatal(err)
	}
	in.ModelId = aws.String("m")
	out, err := bedrock(base, http.DefaultClient).ConverseStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	stream, arguments := out.GetStream(), ""
	name := ""
	for event := range stream.Events() {
		switch e := event.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			if use, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
				name, arguments = *use.Value.Name, ""
			}
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			switch d := e.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				r.Text += d.Value
			case *types.ContentBlockDeltaMemberReasoningContent:
				if text, ok := d.Value.(*types.ReasoningContentBlockDeltaMemberText); ok {
					r.Thinking += text.Value
				}
			case *types.ContentBlockDeltaMemberToolUse:
				arguments += *d.Value.Input
			}
		case *types.ConverseStreamOutputMemberContentBlockStop:
			if name != "" {
				r.Calls = append(r.Calls, compact(t, name, []byte(arguments)))
			}
			name = ""
		case *types.ConverseStreamOutputMemberMessageStop:
			r.Stop = map[types.StopReason]providers.StopReason{
				types.StopReasonEndTurn: providers.StopStop, types.StopReasonToolUse: providers.StopToolUse,
				types.StopReasonMaxTokens: providers.StopLength, types.StopReasonContentFiltered: providers.StopContentFilter,
				types.StopReasonGuardrailIntervened: providers.StopContentFilter,
			}[e.Value.StopReason]
		case *types.ConverseStreamOutputMemberMetadata:
			u := e.Value.Usage
			r.Cached, r.Output = int64(aws.ToInt32(u.CacheReadInputTokens)), int64(*u.OutputTokens)
			r.Prompt = int64(*u.InputTokens) + r.Cached + int64(aws.ToInt32(u.CacheWriteInputTokens))
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAWSSignsAlike(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		url, service, token string
		header              http.Header
	}{
		"a model":        {"https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream", "bedrock", "", nil},
		"lent":           {"https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream", "bedrock", "a token", nil},
		"a resource":     {"https://proxy.example:8443/base/model/arn%3Aaws%3Abedrock%3Aeu-north-1%3A1%3Ainference-profile%2Fx/converse-stream", "bedrock", "", nil},
		"own headers":    {"https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream", "bedrock", "", http.Header{"X-Own": {"  of   the  model "}, "User-Agent": {"a"}}},
		"a role":         {"https://sts.eu-west-1.amazonaws.com/", "sts", "", http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}},
		"a query":        {"https://own.example/a%20b/?Z=1&a=%2F&a=&Action=x+y", "bedrock", "", nil},
		"without a path": {"https://own.example", "bedrock", "", nil},
	} {
		const body = `{"messages":[]}`
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Accept": {"application/vnd.amazon.eventstream"}, "Content-Type": {"application/json"}}
			for name, values := range tt.header {
				r.Header[name] = values
			}
			return r
		}
		a, b, hash := request(), request(), sha256.Sum256([]byte(body))
		awsauth.Sign(a, awsauth.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "a secret", SessionToken: tt.token}, "eu-west-1", tt.service, hash, at)
		keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "a secret", SessionToken: tt.token}
		if err := v4.NewSigner().SignHTTP(t.Context(), keys, b, hex.EncodeToString(hash[:]), tt.service, "eu-west-1", at); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.Header, a.Header); diff != "" {
			t.Errorf("%s (-vendor +parley):\n%s", name, diff)
		}
	}
}

// TestAWSFramesAlike verifies that both implementations read each other's frames, with headers of all
// types.
func TestAWSFramesAlike(t *testing.T) {
	m := eventstream.Message{Payload: []byte("a payload")}
	values := []eventstream.Value{
		eventstream.BoolValue(true), eventstream.BoolValue(false), eventstream.Int8Value(-1), eventstream.Int16Value(2), eventstream.Int32Value(3),
		eventstream.Int64Value(4), eventstream.BytesValue("bytes"), eventstream.TimestampValue(time.Unix(5, 0)), eventstream.UUIDValue{6},
	}
	for i, v := range values {
		m.Headers.Set(fmt.Sprint("h", i), v)
	}
	m.Headers.Set(":event-type", eventstream.StringValue("größe"))
	var frames bytes.Buffer
	for _, payload := range []string{"a payload", ""} {
		m.Payload = []byte(payload)
		if err := eventstream.NewEncoder().Encode(&frames, m); err != nil {
			t.Fatal(err)
		}
	}
	r := ours.NewReader(&frames, nil)
	for _, payload := range []string{"a payload", ""} {
		if got, err := r.Next(); err != nil || got.Text(":event-type") != "größe" || string(got.Payload) != payload || got.Text("h6") != "" {
			t.Errorf("got %q with %q, %v", got.Payload, got.Text(":event-type"), err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("got end of stream %v", err)
	}
	frames.Reset()
	frames.Write(ours.AppendMessage(nil, []ours.Header{{Name: ":event-type", Value: "größe"}, {Name: "empty"}}, []byte("{}")))
	got, err := eventstream.NewDecoder().Decode(&frames, nil)
	if err != nil || string(got.Payload) != "{}" || got.Headers.Get(":event-type").String() != "größe" || got.Headers.Get("empty").String() != "" || frames.Len() != 0 {
		t.Errorf("vendor: got %v, %v", got, err)
	}
}
