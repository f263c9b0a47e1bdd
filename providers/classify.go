package providers

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Classify returns the kind of an error that a vendor reports. status is the HTTP status,
// or the one that the error object names; if it is 0, the status of the code counts, see
// StatusOf. code and message are those of the error object, any of which may be missing.
// Codecs use it for errors inside a stream, too.
//
// Status and code decide. The message decides only what they leave open, by phrases of
// vendors where vendors write them: a message may quote the request, so names in it and
// quoted text decide nothing.
func Classify(status int, code, message string) ErrorKind {
	return report{status: status, codes: []string{code}, message: message, texts: []string{message}}.kind()
}

// kind classifies an error by status, codes and messages, in this order of trust.
func (r report) kind() ErrorKind {
	status := r.httpStatus()
	limited := status == http.StatusTooManyRequests || r.hasCode(rateLimitCodes) || r.says(leadingLimit)
	spent := r.hasCode(quotaCodes) || status < 500 && r.says(leadingQuota) || limited && r.says(quotaPhrases)
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return KindContextOverflow
	case slices.Contains(r.codes, codeQuota), spent && !r.refills():
		return KindQuota
	case limited, spent:
		return KindRateLimit
	case r.hasCode(overflowCodes), !denied && r.says(overflowPhrases):
		return KindContextOverflow
	case status == http.StatusPaymentRequired:
		return KindQuota
	case status == http.StatusForbidden && r.says(notAuthPhrases):
		return KindInvalidRequest
	case denied, status < 500 && r.hasCode(authCodes):
		return KindAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status >= 500, r.hasCode(capacityCodes):
		return KindOverloaded
	case (status == http.StatusBadRequest || status < 300) && r.says(leadingKey):
		return KindAuth
	case status >= 400, status < 300 && r.says(leadingInvalid):
		return KindInvalidRequest
	case status < 300 && r.says(overloadPhrases):
		return KindOverloaded
	}
	return KindProtocol
}

// says reports whether one of the texts matches.
func (r report) says(pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(r.texts, func(text string) bool { return pattern.MatchString(phrases(text)) })
}

// httpStatus is the status of the error. A success that reports an error has that of its
// codes.
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

// refills reports whether the message of a spent quota names a wait or a rate: then it is
// the limit of a rate.
func (r report) refills() bool {
	return messageWait(r.message) > 0 || perMinute.MatchString(r.message)
}

// hasCode reports whether one of the codes is of a list: equal to an entry, or beginning
// with one that ends in *.
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

// foldCode removes what vendors spell differently: case, and the marks between words.
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

// Codes as foldCode returns them. They decide whatever the status is.
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

// Phrases of messages, lower case and without quoted text, see phrases. The leading ones
// stand at the beginning.
var (
	leadingLimit = regexp.MustCompile(`^(?:(?:\w+ ){0,3}rate limit (?:was |has been )?(?:reached|exceeded|hit)|too many requests|` +
		`too many tokens, (?:throttl|please wait)|throttl(?:ed|ing)\b|requests? (?:was|were|is|are|has been|have been) throttled|` +
		`you(?:'ve| have)? (?:exceeded|reached|hit) (?:the|your) (?:\w+ ){0,3}rate limit)`)
	leadingQuota = regexp.MustCompile(`^(?:quota exceeded|you(?:'ve| have)? exceeded your (?:current |monthly |daily )?quota|your credit balance is too low|` +
		`insufficient (?:account )?(?:balance|credits?|funds)|monthly usage limit reached)`)
	leadingKey     = regexp.MustCompile(`^(?:api key not valid|(?:incorrect|invalid|missing|no) api key|invalid x-api-key|authentication (?:error|failed)|unauthorized|invalid authentication)`)
	leadingInvalid = regexp.MustCompile(`^(?:invalid|unsupported|unknown|unrecognized|missing|bad request)\b`)

	notAuthPhrases = regexp.MustCompile(`your request did not allow prompt caching`)

	// quotaPhrases tell a spent quota among limits.
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

	// overloadPhrases count where neither status nor code is known.
	overloadPhrases = regexp.MustCompile(`\b(?:overloaded|internal server error|server error|unavailable|timeout|timed out)\b`)
)

// errorPrefix is a class of errors before a message, such as "AiError: " of a gateway.
var errorPrefix = regexp.MustCompile(`^(?:[\w.]*(?:error|exception): *)+`)

// quoted is text of others within a message. An apostrophe opens none.
var quoted = regexp.MustCompile(`(^|[\s(\[{:,=])(?:'[^']*'|"[^"]*")`)

// phrases is a message in lower case, without quoted text and classes of errors before it.
func phrases(message string) string {
	text := quoted.ReplaceAllString(strings.ToLower(strings.TrimSpace(message)), "$1")
	return errorPrefix.ReplaceAllString(text, "")
}

// StatusOf returns the HTTP status that an error of a code has outside a stream, 0 for a
// code that it does not know.
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
		"toolusefailed": // the model wrote a call that is none, and may write a better one
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

// Codes of a vendor that has numbers alone.
const (
	codeQuota    = "1308"
	codeOverflow = "1261"
)

// Words that are tried within what a vendor refuses as invalid: no kind of its own.
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

// Overflowed reports a response that shows, without any error, that the request
// did not fit: some vendors cut the prompt silently, others leave no room for
// an answer. It is false for a model whose window is unknown.
func Overflowed(m Model, d Done) bool {
	window, prompt := int64(m.ContextWindow), d.Usage.Input+d.Usage.CacheRead
	if window <= 0 {
		return false
	}
	return prompt > window ||
		d.StopReason == StopLength && d.Usage.Output == 0 && prompt >= window*99/100
}
