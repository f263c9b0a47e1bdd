package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
)

// returning returns a tool that returns a value.
func returning(v any) agent.Tool {
	return agent.NewTool("show", "Show it.", func(context.Context, struct{}) (any, error) { return v, nil }, nil)
}

func TestToolOutcome(t *testing.T) {
	pictures := []agent.Image{{MimeType: "image/png", Data: []byte{1}, Filename: "a.png"}, {MimeType: "image/svg+xml; charset=utf-8", Data: []byte{2}}}
	full := agent.Result{Output: map[string]int{"n": 1}, Terminate: true, Images: pictures}
	typed := agent.NewTool("typed", "Return a result.", func(context.Context, struct{}) (agent.Result, error) { return full, nil }, nil)
	pointer := agent.NewTool("pointer", "Return a result.", func(context.Context, struct{}) (*agent.Result, error) { return &full, nil }, nil)
	none := agent.NewTool("none", "Return no result.", func(context.Context, struct{}) (*agent.Result, error) { return nil, nil }, nil)
	want := agent.Outcome{Output: []byte(`{"n":1}`), Terminate: true, Images: pictures}
	for _, tc := range []struct {
		name string
		tool agent.Tool
		want agent.Outcome
	}{
		{"a value", returning("x"), agent.Outcome{Output: []byte(`"x"`)}},
		{"a result", typed, want},
		{"a pointer to a result", pointer, want},
		{"a result as any", returning(full), want},
		{"a nil pointer", none, agent.Outcome{Output: []byte("null")}},
		{"the zero result", returning(agent.Result{}), agent.Outcome{Output: []byte("null")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.tool.Run(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if raw, err := tc.tool.Call(t.Context(), nil); err != nil || string(raw) != string(tc.want.Output) {
				t.Errorf("Call: got %s, %v", raw, err)
			}
		})
	}
	out, err := returning(agent.Result{Output: make(chan int)}).Run(t.Context(), nil)
	var output *agent.OutputError
	if !errors.As(err, &output) || out != nil {
		t.Errorf("no JSON: got %v, %v", out, err)
	}
}

func TestToolImagesAreChecked(t *testing.T) {
	png := agent.Image{MimeType: "image/png", Data: []byte{1}}
	large := agent.Image{MimeType: "image/png", Data: make([]byte, agent.MaxImageBytes/2)}
	with := func(spoil func(m *agent.Image)) []agent.Image {
		bad := png
		spoil(&bad)
		return []agent.Image{png, bad}
	}
	for _, tc := range []struct {
		name    string
		images  []agent.Image
		message string
	}{
		{"as many as may be", repeat(png, 16), ""},
		{"too many", repeat(png, 17), "Images: there are 17, at most 16 are shown"},
		{"as large as may be", []agent.Image{large, large}, ""},
		{"too large together", []agent.Image{large, large, png}, "Images: they have 16777217 bytes together, at most 16777216 are shown"},
		{"no type", with(func(m *agent.Image) { m.MimeType = "" }), `Images[1]: MimeType "" is not that of an image`},
		{"other type", with(func(m *agent.Image) { m.MimeType = "text/plain" }), "is not that of an image"},
		{"header injection", with(func(m *agent.Image) { m.MimeType = "image/png; a=\"b\r\nc\"" }), "is not that of an image"},
		{"spaces", with(func(m *agent.Image) { m.MimeType = " image/png" }), "is not that of an image"},
		{"long type", with(func(m *agent.Image) { m.MimeType = "image/" + strings.Repeat("x", 250) }), "is not that of an image"},
		{"no data", with(func(m *agent.Image) { m.Data = nil }), "Images[1]: has no data"},
		{"a name", with(func(m *agent.Image) { m.Filename = "Übersicht 1.png" }), ""},
		{"control character in a name", with(func(m *agent.Image) { m.Filename = "a\nb" }), `Filename "a\nb" is not one`},
		{"no text as a name", with(func(m *agent.Image) { m.Filename = "\xff" }), "is not one"},
		{"long name", with(func(m *agent.Image) { m.Filename = strings.Repeat("x", 256) }), "is not one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := returning(agent.Result{Images: tc.images}).Run(t.Context(), nil)
			if tc.message == "" {
				if err != nil || len(out.Images) != len(tc.images) {
					t.Errorf("got %v, %v", out, err)
				}
				return
			}
			var rejected *agent.ResultError
			if !errors.As(err, &rejected) || rejected.Tool != "show" || out != nil || len(err.Error()) > 1000 ||
				!strings.HasPrefix(err.Error(), "tool show returned images that cannot be shown: ") || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, want a ResultError with %q", err, tc.message)
			}
		})
	}
}

func repeat(m agent.Image, n int) []agent.Image {
	images := make([]agent.Image, n)
	for i := range images {
		images[i] = m
	}
	return images
}
