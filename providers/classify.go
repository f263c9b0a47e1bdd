package providers

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Classify returns the kind of a vendor error. status is the HTTP status or the status in the error
// object; if it is 0, the status of the code is used, see StatusOf. code and message are those of the
// error object and may be empty. Codecs also use Classify for errors inside a stream.
//
// Status and code decide first. The message decides only ambiguous cases, by known phrases in known
// positions. A message may quote the request, so names in it and quoted text are ignored.
func Classify(status int, code, message string) ErrorKind {
	return report{status: status, codes: []string{code}, message: message, texts: []string{message}}.kind()
}

// kind classifies an error by status, codes and messages, in this order of precedence.
func (r report) kind() ErrorKind {
	status := r.httpStatus()
	limited := status == http.StatusTooManyRequests || r.hasCode(rateLimitCodes) || r.matches(leadingLimit)
	spent := r.hasCode(quotaCodes) || status < 500 && r.matches(leadingQuota) || limited && r.matches(quotaPhrases)
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return KindContextOverflow
	case slices.Contains(r.codes, codeQuota), spent && !r.refills():
		return KindQuota
	case limited, spent:
		return KindRateLimit
	case r.hasCode(overflowCodes), !denied && r.matches(overflowPhrases):
		return KindContextOverflow
	case status == http.StatusPaymentRequired:
		return KindQuota
	case status == http.StatusForbidden && r.matches(notAuthPhrases):
		return KindInvalidRequest
	case denied, status < 500 && r.hasCode(authCodes):
		return KindAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500, r.hasCode(capacityCodes):
		return KindOverloaded
	case (status == http.StatusBadRequest || status < 300) && r.matches(leadingKey):
		return KindAuth
	case status >= 400, status < 300 && r.matches(leadingInvalid):
		return KindInvalidRequest
	case status < 300 && r.matches(overloadPhrases):
		return KindOverloaded
	}
	return KindProtocol
}

// matches reports whether one of the texts matches.
func (r report) matches(pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(r.texts, func(text string) bool { return pattern.MatchString(phrases(text)) })
}

// httpStatus returns the status of the error. If an error arrives with a success status, the status of
// its codes is used.
func (r report) httpStatus() int {
	if r.status >= 300 {
		return r.status
	}
	for _, c := range r.codes {
		if s := StatusOf(c); s != 0 {
			return s
		}
	}
	return r.status
}

// refills reports whether the message of an exhausted quota names a delay or a rate. It is a rate
// limit then.
func (r report) refills() bool {
	return messageWait(r.message) > 0 || perMinute.MatchString(r.message)
}

// hasCode reports whether one of the codes is in the list. An entry that ends in * matches a prefix.
func (r report) hasCode(list []string) bool {
	return slices.ContainsFunc(r.codes, func(code string) bool {
		code = foldCode(code)
		return slices.ContainsFunc(list, func(entry string) bool {
			if prefix, ok := strings.CutSuffix(entry, "*"); ok {
				return strings.HasPrefix(code, prefix)
			}
			return code == entry
		})
	})
}

// foldCode removes differences in spelling between vendors: case and separators.
func foldCode(code string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		case strings.ContainsRune("_-. ", c):
			return -1
		}
		return c
	}, code)
}

// Codes, folded by foldCode. They take precedence over the status.
var (
	quotaCodes = []string{
		"insufficientquota", "insufficientbalance*", "insufficientcredits*", "insufficientfunds", "billinghardlimit*", "usagelimitreached",
		"usagenotincluded", "gousagelimiterror", "freeusagelimiterror", "creditserror", "subscriptionsharing*", "servicequotaexceeded*",
		"quotaexceeded*", "dailylimitexceeded*",
	}
	rateLimitCodes = []string{
		"ratelimit*", "userratelimit*", "toomanyrequests*", "throttl*", "requestsratelimit*", "tokensratelimit*", "resourceexhausted",
	}
	overflowCodes = []string{
		"contextlengthexceeded*", "contextwindowexceeded*", "modelcontextwindowexceeded*", "exceedcontextsize*", "requesttoolarge", "prompttoolong", codeOverflow,
	}
	authCodes = []string{
		"invalidapikey*", "apikeyinvalid", "incorrectapikey*", "authenticationerror", "invalidauthentication*", "unauthenticated",
		"unrecognizedclientexception",
	}
	capacityCodes = []string{"slowdown", "serverisoverloaded", "servicetiercapacityexceeded"}
)

// Phrases of messages, in lower case and without quoted text, see phrases. Those named leading match
// at the beginning only.
var (
	leadingLimit = regexp.MustCompile(`^(?:(?:\w+ ){0,3}rate limit (?:was |has been )?(?:reached|exceeded|hit)|too many requests|` +
		`too many tokens, (?:throttl|please wait)|throttl(?:ed|ing)\b|requests? (?:was|were|is|are|has been|have been) throttled|` +
		`you(?:'ve| have)? (?:exceeded|reached|hit) (?:the|your) (?:\w+ ){0,3}rate limit)`)
	leadingQuota = regexp.MustCompile(`^(?:quota exceeded|you(?:'ve| have)? exceeded your (?:current |monthly |daily )?quota|your credit balance is too low|` +
		`insufficient (?:account )?(?:balance|credits?|funds)|monthly usage limit reached)`)
	leadingKey     = regexp.MustCompile(`^(?:api key not valid|(?:incorrect|invalid|missing|no) api key|invalid x-api-key|authentication (?:error|failed)|unauthorized|invalid authentication)`)
	leadingInvalid = regexp.MustCompile(`^(?:invalid|unsupported|unknown|unrecognized|missing|bad request)\b`)

	notAuthPhrases = regexp.MustCompile(`your request did not allow prompt caching`)

	// quotaPhrases identify an exhausted quota among limits.
	quotaPhrases = regexp.MustCompile(`quota exceeded|exceeded your (?:current |monthly |daily )?quota|insufficient (?:balance|credits?|quota|funds)|` +
		`monthly usage limit reached|available balance|out of budget|daily free allocation|credit balance is too low`)
	perMinute = regexp.MustCompile(`(?i)per[ _-]?(?:minute|second)`)

	overflowPhrases = regexp.MustCompile(strings.Join([]string{
		`(?:prompt|input|request|messages?|conversation)(?: tokens?| length)? (?:(?:is|are|was|were) )?too (?:long|large)\b`,
		`(?:maximum|max|exceed\w*|(?:greater|larger|longer|more) than|overflows?|beyond|outside|fit\w*|only)\b[^.]{0,100}\bcontext (?:length|window|size|limit)`,
		`\bcontext (?:length|window|size|limit)\b[^.]{0,100}(?:exceed|overflow|too (?:small|long|large)|of only|full\b|maximum)`,
		`context shift is disabled`,
		`input token count`,
		`^too many tokens`,
		`too many (?:input |prompt )?tokens in`,
		`reduce the length of`,
		`maximum (?:prompt|allowed input|model|input|sequence) length`,
		`prompt token count of`,
		`exceeded model token limit`,
		`prompt exceeds max length`,
		`range of input length should be`,
		`tokens in request more than max tokens allowed`,
		`number of (?:input |prompt )?tokens\b[^.]{0,80}(?:exceed|must be (?:less|at most|<))`,
		"`?inputs`? must have less than [0-9]+ tokens",
		`input tokens? exceeds? the`,
		`^(?:input |prompt |context )?token limit exceeded`,
		`request payload size exceeds`,
		"tokens \\+ `?max_new_tokens`? must be <=",
		`max_total_tokens\b[^.]{0,100}max_seq_len`,
	}, "|"))

	// overloadPhrases are used if neither status nor code is known.
	overloadPhrases = regexp.MustCompile(`\b(?:overloaded|internal server error|server error|unavailable|timeout|timed out)\b`)
)

// errorPrefix matches error classes before a message, such as "AiError: " of a gateway.
var errorPrefix = regexp.MustCompile(`^(?:[\w.]*(?:error|exception): *)+`)

// quoted matches quoted text in a message. An apostrophe does not open a quotation.
var quoted = regexp.MustCompile(`(^|[\s(\[{:,=])(?:'[^']*'|"[^"]*")`)

// phrases returns a message in lower case, without quoted text and leading error classes.
func phrases(message string) string {
	text := quoted.ReplaceAllString(strings.ToLower(strings.TrimSpace(message)), "$1")
	return errorPrefix.ReplaceAllString(text, "")
}

// StatusOf returns the HTTP status that an error code has outside a stream, or 0 if it is unknown.
func StatusOf(code string) int {
	switch code = foldCode(code); code {
	case "invalidrequesterror", "invalidrequest", "badrequest", "invalidargument", "invalidprompt", "validationexception", "imagetoolarge", "imagetoosmall",
		"imageparseerror", "imagefiletoolarge", "unsupportedimagemediatype", "emptyimagefile", "failedtodownloadimage",
		"imagefilenotfound", "imagecontentpolicyviolation", "dataresidencymismatch", "invalidencryptedcontent":
		return http.StatusBadRequest
	case "authenticationerror", "invalidapikey", "unauthorized", "unauthenticated":
		return http.StatusUnauthorized
	case "billingerror":
		return http.StatusPaymentRequired
	case "permissionerror", "permissiondenied":
		return http.StatusForbidden
	case "notfounderror", "notfound":
		return http.StatusNotFound
	case "requesttoolarge":
		return http.StatusRequestEntityTooLarge
	case "ratelimiterror", "ratelimitexceeded", "throttlingexception", "resourceexhausted":
		return http.StatusTooManyRequests
	case "apierror", "servererror", "internalservererror", "internalerror", "internalserverexception", "modelstreamerrorexception", "networkerror",
		"toolusefailed": // the model wrote an invalid call; a retry may succeed
		return http.StatusInternalServerError
	case "modeltimeoutexception":
		return http.StatusRequestTimeout
	case "timeouterror":
		return http.StatusGatewayTimeout
	case "overloadederror", "slowdown", "serverisoverloaded", "serviceunavailableexception", "unavailable":
		return http.StatusServiceUnavailable
	}
	if strings.HasPrefix(code, "invalidimage") || strings.HasSuffix(code, "policy") && code != "policy" {
		return http.StatusBadRequest
	}
	return 0
}

// Numeric codes of a vendor that has no other codes.
const (
	codeQuota    = "1308"
	codeOverflow = "1261"
)

// Patterns that refine an invalid request and are not a kind of their own.
var (
	replayWords = []string{"invalid_encrypted_content", "invalid `signature` in `thinking`", "thought signature is not valid", "corrupted thought signature"}
	manyWords   = []string{"too many images", "too many image(s)", "image(s) may be provided", "maximum number of images", "number of images exceeds"}
)

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// Overflowed reports whether a response shows, without an error, that the request did not fit. Some
// vendors truncate the prompt silently; others leave no room for an answer. It returns false for a
// model with an unknown window.
func Overflowed(m Model, d Done) bool {
	window, prompt := int64(m.ContextWindow), d.Usage.Input+d.Usage.CacheRead
	if window <= 0 {
		return false
	}
	return prompt > window ||
		d.StopReason == StopLength && d.Usage.Output == 0 && prompt >= window*99/100
}
