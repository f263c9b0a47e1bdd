package providers

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MinSecretBytes is the minimum length of a secret that is hidden; shorter ones protect nothing.
	MinSecretBytes = 6
	// sureSecretBytes is the minimum length of a secret that is hidden wherever it occurs, unless it
	// is a word. Shorter ones also occur in other texts by chance.
	sureSecretBytes = 12
	// hiddenSecret replaces a secret.
	hiddenSecret = "[secret]"
)

// HideSecrets replaces every secret in a text. A secret of at least 12 bytes is replaced wherever it
// occurs. A shorter one is replaced between spaces or punctuation. A word is replaced only as a value,
// as in key=word, "key":"word", or alone. A secret shorter than [MinSecretBytes] is not hidden.
func HideSecrets(text string, secrets []string) string {
	found := slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < MinSecretBytes || !strings.Contains(text, s) })
	// Of two secrets at the same position the longer is replaced.
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if len(found) == 0 {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		at := slices.IndexFunc(found, func(s string) bool { return strings.HasPrefix(text[i:], s) && occurs(s, text[:i], text[i+len(s):]) })
		if at >= 0 {
			out.WriteString(hiddenSecret)
			i += len(found[at])
			continue
		}
		out.WriteByte(text[i])
		i++
	}
	return out.String()
}

// occurs reports whether the text between before and after is the secret and not part of another text.
func occurs(secret, before, after string) bool {
	next, size := utf8.DecodeRuneInString(after)
	ends := after == "" || strings.ContainsRune("\"'`,;)]}>&@\\", next) || unicode.IsSpace(next) ||
		strings.ContainsRune(".:!?", next) && (len(after) == size || !continues(after[size:]))
	switch {
	case isWord(secret):
		if before == "" {
			return after == ""
		}
		return ends && next != ':' && isValue(before, unicode.IsSpace(next))
	case len(secret) < sureSecretBytes:
		last, _ := utf8.DecodeLastRuneInString(before)
		return ends && (before == "" || strings.ContainsRune("\"'`,;([{<=:&/\\", last) || unicode.IsSpace(last))
	}
	return true
}

// continues reports whether a text continues the word before it.
func continues(after string) bool {
	r, _ := utf8.DecodeRuneInString(after)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// isValue reports whether a value can begin after before. If more words follow the value, its key must
// be right before it.
func isValue(before string, more bool) bool {
	quoted := strings.HasSuffix(before, `"`) || strings.HasSuffix(before, "'") || strings.HasSuffix(before, "`")
	if quoted || strings.HasSuffix(before, "=") {
		return true
	}
	before = strings.ToLower(strings.TrimRight(before, " "))
	return strings.HasSuffix(before, "bearer") || strings.HasSuffix(before, "basic") || strings.HasSuffix(before, ":") && !more
}

// isWord reports whether a secret is a plain word: letters only, and short or in longWords.
func isWord(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return false
	}
	return len(s) < sureSecretBytes || slices.Contains(longWords(), strings.ToLower(s))
}

// longWords returns words of at least 12 letters that are common in messages of servers.
func longWords() []string {
	return []string{
		"acknowledged", "administration", "administrator", "administrators", "architecture", "authenticate", "authenticated",
		"authentication", "authorization", "availability", "certificates", "communication", "configuration", "configurations",
		"connectivity", "conversation", "conversations", "credentials", "deliverables", "demonstration", "distribution",
		"documentation", "experimental", "implementation", "incompatible", "infrastructure", "initialization", "installation",
		"instructions", "instrumentation", "integrations", "international", "introduction", "maintenance", "notification",
		"notifications", "observability", "orchestration", "orchestrator", "organization", "organizations", "performance",
		"placeholder", "possibilities", "professional", "registration", "relationship", "replacements", "repositories",
		"requirements", "responsibility", "subscription", "subscriptions", "successfully", "transactions", "unauthorized",
		"unauthenticated", "verification", "visualization",
	}
}

// Secrets returns the current keys of all providers and the values of headers with names of secrets.
// Programs redact them in their logs.
func (r *Registry) Secrets() []string {
	r.mu.RLock()
	all := maps.Clone(r.registered)
	r.mu.RUnlock()
	for id := range r.catalog { // including unregistered providers, whose keys are in the environment
		if _, ok := all[id]; !ok {
			all[id] = registered{}
		}
	}
	var secrets []string
	for id, entry := range all {
		secrets = append(secrets, secretsOf(r.credentials(id, entry.reg).value, entry.reg.Headers)...)
		if _, query := splitQuery(entry.reg.BaseURL); query != "" {
			if expanded, err := expand(query, r.getenv); err == nil {
				query = expanded
			}
			secrets = append(secrets, querySecrets(query)...)
		}
		if entry.provider != nil {
			secrets = append(secrets, secretsOf("", entry.provider.Headers)...)
		}
	}
	return secrets
}

// secretsOf returns a key and the values of secret headers, each also without a scheme such as
// "Bearer".
func secretsOf(key string, headers map[string]string) []string {
	var secrets []string
	if key = strings.TrimSpace(key); key != "" {
		secrets = append(secrets, key)
	}
	for name, value := range headers {
		if !namesSecret(name) {
			continue
		}
		secrets = append(secrets, value)
		if _, bare, ok := strings.Cut(value, " "); ok {
			secrets = append(secrets, strings.TrimSpace(bare))
		}
	}
	return secrets
}

// querySecrets returns the values of secret parameters of a query, decoded and encoded.
func querySecrets(query string) []string {
	one := map[string]string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" {
			one[name] = value
		}
	}
	secrets := secretsOf("", one)
	for _, s := range secrets {
		if plain, err := url.QueryUnescape(s); err == nil && plain != s {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

// headerSecrets returns the secrets among the headers of a request.
func headerSecrets(h http.Header) []string {
	one := make(map[string]string, len(h))
	for name := range h {
		one[name] = h.Get(name)
	}
	return secretsOf("", one)
}

func namesSecret(header string) bool {
	name := strings.ToLower(header)
	if strings.HasSuffix(name, "-id") || strings.HasSuffix(name, "_id") { // An id identifies a key and is not secret.
		return false
	}
	return containsAny(name, []string{"auth", "key", "token", "secret", "cookie", "password"})
}

// HideInError returns the error without secrets in its text and in the vendor data of an [*Error],
// because vendors repeat rejected keys. The result wraps err.
func HideInError(err error, secrets []string) error {
	if err == nil || len(secrets) == 0 {
		return err
	}
	var e *Error
	if errors.As(err, &e) {
		hidden := e.hide(secrets)
		if err == error(e) {
			return hidden
		}
		return &hiddenError{HideSecrets(err.Error(), secrets), []error{hidden, err}}
	}
	if text := err.Error(); HideSecrets(text, secrets) != text {
		return &hiddenError{HideSecrets(text, secrets), []error{err}}
	}
	return err
}

func (e *Error) hide(secrets []string) *Error {
	c := *e
	c.RequestID = HideSecrets(e.RequestID, secrets)
	if text := string(e.Body); HideSecrets(text, secrets) != text {
		text = HideSecrets(text, secrets)
		c.Body = []byte(text[:min(len(text), MaxErrorBody)])
	}
	var vendor *VendorError
	switch {
	case e.Err == nil:
	case errors.As(e.Err, &vendor):
		c.Err = &VendorError{Code: HideSecrets(vendor.Code, secrets), Message: HideSecrets(vendor.Message, secrets)}
	default:
		c.Err = HideInError(e.Err, secrets)
	}
	return &c
}

// hiddenError replaces the text of its cause.
type hiddenError struct {
	text string
	errs []error
}

func (e *hiddenError) Error() string   { return e.text }
func (e *hiddenError) Unwrap() []error { return e.errs }

// VendorWord returns a vendor's value where one word of a known list is expected. Any other text may
// repeat the request, so only its length is returned.
func VendorWord(s string) string {
	const most = 64
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.:/", c)
	}
	if len(s) > most || strings.ContainsFunc(s, odd) {
		return bytesOfText(s)
	}
	return s
}

// requestID returns the vendor's id of the request, "" if it sends none.
func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "Request-Id", "Mistral-Correlation-Id", "X-Amzn-Requestid"} {
		if id := h.Get(name); id != "" {
			return VendorWord(id)
		}
	}
	return ""
}
