package config

import (
	"strings"
	"unicode"
)

// Webhooks configures the targets of posts.
type Webhooks struct {
	// Allow lists the hosts that callers may name by a URL, "*.example.com" for all subdomains.
	Allow []string
	// Secrets sign the posts to these hosts, each of them; empty does not sign.
	Secrets []string
	// Targets maps the names that agents post to.
	Targets map[string]Webhook
}

// Webhook is one target.
type Webhook struct {
	URL string
	// SecretURL reports whether the URL is a secret.
	SecretURL bool
	Secrets   []string // each signs
	// Private allows addresses outside the public internet.
	Private bool
}

func (r *reader) webhooks(dst *Webhooks) func(value) {
	return func(v value) {
		dst.Targets = map[string]Webhook{}
		r.fields(v, []field{
			{name: "allow", example: "[hooks.example.com]", read: r.texts(&dst.Allow, checkAllowed)},
			{name: "secretEnv", example: "WEBHOOK_SECRET", read: r.secret(&dst.Secrets)},
			{name: "nextSecretEnv", example: "NEXT_WEBHOOK_SECRET", read: r.secret(&dst.Secrets)},
			{name: "targets", example: `{ledger: {url: "https://ledger.example.com/hook"}}`, read: func(v value) {
				for _, t := range r.entries(v, `{url: "https://ledger.example.com/hook", secretEnv: LEDGER_SECRET}`) {
					dst.Targets[t.name] = r.webhook(t)
				}
			}},
		})
	}
}

func (r *reader) webhook(v value) (w Webhook) {
	if f := checkTargetName(v.name); f != (fault{}) {
		r.blameKey(v, f)
	}
	r.fields(v, []field{
		{name: "url", example: "https://ledger.example.com/hook", read: r.text(&w.URL, checkURL)},
		{name: "urlEnv", example: "LEDGER_URL", read: r.variable(&w.URL)},
		{name: "secretEnv", example: "LEDGER_SECRET", read: r.secret(&w.Secrets)},
		{name: "nextSecretEnv", example: "NEXT_LEDGER_SECRET", read: r.secret(&w.Secrets)},
		{name: "private", example: "true", read: r.truth(func(t bool) { w.Private = t })},
	})
	switch url, env := r.written(v, "url"), r.written(v, "urlEnv"); {
	case url && env:
		other, _ := r.given(v, "urlEnv")
		r.blameKey(other, fault{"is set in addition to url, but a target has one", "keep url, or urlEnv if it is a secret"})
	case env:
		w.SecretURL = true
	case !url && !env:
		r.missing(v, "url", "https://ledger.example.com/hook")
	}
	return w
}

// secret reads the name of an environment variable and appends its secret.
func (r *reader) secret(dst *[]string) func(value) {
	return func(v value) {
		var s string
		if r.variable(&s)(v); s != "" {
			*dst = append(*dst, s)
		}
	}
}

func checkTargetName(s string) fault {
	odd := func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.", c)
	}
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, odd) {
		return fault{quote(s) + " is not the name of a target", "use 1 to 64 letters, digits, '-', '_' or '.'"}
	}
	return fault{}
}

func checkAllowed(s string) fault {
	if !isHost(strings.TrimPrefix(s, "*.")) {
		return fault{quote(s) + " is not a host", "write the host alone, for example hooks.example.com, or *.example.com for all below it"}
	}
	return fault{}
}
