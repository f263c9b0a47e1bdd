package outbox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/outbox"
)

// someURLs accepts all URLs but one.
type someURLs struct{ outbox.Func }

func (someURLs) Check(url string) error {
	if strings.Contains(url, "evil") {
		return errors.New("it is evil")
	}
	return nil
}

func TestFind(t *testing.T) {
	deliver := outbox.Func(func(context.Context, outbox.Post) error { return nil })
	named := map[string]outbox.Target{"ledger": deliver, "desk": deliver}
	for name, c := range map[string]struct {
		routes outbox.Routes
		target string
		want   string // part of the error text
	}{
		"a name":            {outbox.Routes{Targets: named}, "ledger", ""},
		"another":           {outbox.Routes{Targets: named}, "legder", `unknown target "legder"; add it`},
		"none":              {outbox.Routes{}, "ledger", "unknown target"},
		"a URL":             {outbox.Routes{URLs: someURLs{deliver}}, "https://example.com", ""},
		"a URL, and none":   {outbox.Routes{Targets: named}, "https://example.com", "no host is allowed"},
		"one that is not":   {outbox.Routes{URLs: someURLs{deliver}}, "https://evil.example", `post to "https://evil.example" rejected: it is evil`},
		"a word like a URL": {outbox.Routes{URLs: someURLs{deliver}}, "ftp://example.com", "unknown target"},
	} {
		to, err := c.routes.Find(c.target)
		var unknown *outbox.UnknownTargetError
		switch {
		case c.want == "" && (err != nil || to == nil):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &unknown) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// brokenURLs is a target whose check panics.
type brokenURLs struct {
	outbox.Func
	check func() error
}

func (u brokenURLs) Check(string) error { return u.check() }

func TestFindContainsTheCheck(t *testing.T) {
	deliver := outbox.Func(func(context.Context, outbox.Post) error { return nil })
	for name, check := range map[string]func() error{
		"panics": func() error { panic("a defect") }, "exits": func() error { runtime.Goexit(); return nil },
		"returns a typed nil": func() error { var e *outbox.LaterError; return e },
	} {
		routes := outbox.Routes{URLs: brokenURLs{deliver, check}}
		var unknown *outbox.UnknownTargetError
		if to, err := routes.Find("https://example.com"); !errors.As(err, &unknown) || err.Error() == "" {
			t.Errorf("a check that %s: got %v, %v, want an UnknownTargetError", name, to, err)
		}
	}
}

func TestCheck(t *testing.T) {
	deliver := outbox.Func(func(context.Context, outbox.Post) error { return nil })
	for name, target := range map[string]outbox.Target{
		"": deliver, "a b": deliver, "https://x": deliver, "ä": deliver, strings.Repeat("x", 65): deliver, "nil": nil,
	} {
		r := outbox.Routes{Targets: map[string]outbox.Target{name: target}}
		if err := r.Check(); err == nil {
			t.Errorf("target name %q: got no error", name)
		}
	}
	r := outbox.Routes{Targets: map[string]outbox.Target{"Ledger-1_a.b": deliver}}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
}

// bot is a target that replies for a channel.
type bot struct{ outbox.Func }

func (bot) RepliesForChannel() {}

// TestCheckNotices checks that the lists of an agent name configured targets, and open no reply target
// of a channel.
func TestCheckNotices(t *testing.T) {
	deliver := outbox.Func(func(context.Context, outbox.Post) error { return nil })
	r := outbox.Routes{URLs: someURLs{deliver}, Targets: map[string]outbox.Target{"ledger": deliver, "slack": bot{deliver}, "channels.x": deliver}}
	for name, c := range map[string]struct {
		notify, open []string
		want         string // part of the error text
	}{
		"nothing":                 {nil, nil, ""},
		"known targets":           {[]string{"ledger", "slack"}, []string{"ledger", "https://example.com", "https://*.example.com"}, ""},
		"unknown":                 {[]string{"legder"}, nil, `unknown target "legder"; add it to webhooks.targets or to the program's targets; configured targets: channels.x, ledger, slack`},
		"unknown and open":        {nil, []string{"legder"}, "unknown target"},
		"a host that is not":      {nil, []string{"https://evil.example"}, "it is evil"},
		"a target of replies":     {nil, []string{"ledger", "slack"}, `reply target "slack"`},
		"a name of a target such": {nil, []string{"channels.x"}, `reply target "channels.x"`},
	} {
		err := r.CheckNotices(c.notify, c.open)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
