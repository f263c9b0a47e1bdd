package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter prevents overflow on excessive hints. The caller has a much lower cap.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the requested delay from the most exact hint: the usual headers, the body, or the
// reset time of the exhausted limit in the x-ratelimit headers.
func retryAfter(h http.Header, body []byte) time.Duration {
	if wait := headerWait(h); wait > 0 {
		return wait
	}
	if wait := bodyWait(body, serverTime(h)); wait > 0 {
		return wait
	}
	var wait time.Duration
	for _, desc := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+desc) == "0" {
			wait = max(wait, parseWait(h.Get("X-Ratelimit-Reset-"+desc)))
		}
	}
	return wait
}

// headerWait reads a vendor header in milliseconds, or Retry-After in seconds, as a duration such as
// "30s", or as a date. A date is relative to the server's Date header if there is one.
func headerWait(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(h.Get(name), 64); err == nil && ms > 0 {
			return boundedWait(ms * float64(time.Millisecond))
		}
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if wait := secondsWait(v); wait > 0 {
		return wait
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return boundedWait(float64(at.Sub(serverTime(h))))
}

// secondsWait parses seconds or a duration with units; 0 means none.
func secondsWait(s string) time.Duration {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		return boundedWait(seconds * float64(time.Second))
	}
	return parseWait(strings.ToLower(s))
}

// serverTime returns the time of the response according to its server.
func serverTime(h http.Header) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

// bodyWait reads the delay from the error object of a body: its members, or its message.
func bodyWait(body []byte, now time.Time) time.Duration {
	if wait := retryInfo(body); wait > 0 {
		return wait
	}
	for _, object := range [][]byte{errorObject(body), body} {
		if wait := memberWait(object, now); wait > 0 {
			return wait
		}
	}
	return messageWait(reportOf(body).message)
}

// memberWait reads the members of an object that contain a delay; 0 means none.
func memberWait(object []byte, now time.Time) time.Duration {
	var o map[string]any
	if json.Unmarshal(object, &o) != nil {
		return 0
	}
	for _, name := range []string{"resets_in_seconds", "retry_after", "retry_after_seconds", "retryAfter", "retryAfterSeconds"} {
		if wait := secondsWait(fmt.Sprint(o[name])); wait > 0 {
			return wait
		}
	}
	for _, name := range []string{"retry_after_ms", "retryAfterMs"} {
		if ms, ok := o[name].(float64); ok && ms > 0 {
			return boundedWait(ms * float64(time.Millisecond))
		}
	}
	if at, ok := o["resets_at"].(float64); ok && at > 0 { // Unix time
		return boundedWait((at - float64(now.Unix())) * float64(time.Second))
	}
	if of, ok := o["metadata"].(map[string]any); ok { // gateway metadata
		return secondsWait(fmt.Sprint(of["retry_after"]))
	}
	return 0
}

// errorObject returns the error member of a body, or the body itself.
func errorObject(body []byte) []byte {
	var top struct {
		Error json.RawMessage `json:"error"`
	}
	body = firstElement(body)
	if json.Unmarshal(body, &top) == nil && len(top.Error) > 0 && top.Error[0] == '{' {
		return top.Error
	}
	return body
}

// retryInfo reads the google.rpc.RetryInfo in the details of an error; 0 means none.
func retryInfo(body []byte) time.Duration {
	var o struct {
		Details []struct {
			Type  string `json:"@type"`
			Delay string `json:"retryDelay"`
		} `json:"details"`
	}
	_ = json.Unmarshal(errorObject(body), &o)
	for _, d := range o.Details {
		if strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
			if wait := parseWait(d.Delay); wait > 0 {
				return wait
			}
		}
	}
	return 0
}

// returning changes an exhausted quota to a rate limit if the body contains a retry delay.
func returning(kind ErrorKind, body []byte) ErrorKind {
	if kind == KindQuota && retryInfo(body) > 0 {
		return KindRateLimit
	}
	return kind
}

// waitWords matches a delay in a message, such as "try again in 6m0s", "retry in 34.4s", "retry after
// 7 seconds" or "wait 35 seconds".
var waitWords = regexp.MustCompile(`(?i)\b(?:(?:re)?try(?: again)? (?:in|after)|wait(?: for)?) (?:((?:\d+(?:\.\d+)?(?:ms|[hms]))+)|(\d+(?:\.\d+)?) (millisecond|second|minute|hour)s?)\b`)

func messageWait(message string) time.Duration {
	found := waitWords.FindStringSubmatch(message)
	switch {
	case found == nil:
		return 0
	case found[2] != "":
		unit := strings.ToLower(found[3])
		if unit == "millisecond" {
			return parseWait(found[2] + "ms")
		}
		return parseWait(found[2] + unit[:1])
	}
	return parseWait(strings.ToLower(found[1]))
}

// parseWait parses a duration such as "6m0s"; 0 means none.
func parseWait(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return boundedWait(float64(d))
}

// firstElement unwraps an error in an array.
func firstElement(body []byte) []byte {
	var list []json.RawMessage
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' && json.Unmarshal(trimmed, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return body
}

func boundedWait(ns float64) time.Duration {
	switch {
	case ns >= float64(maxRetryAfter):
		return maxRetryAfter
	case ns > 0:
		return time.Duration(ns)
	}
	return 0
}

func retryHint(h http.Header) *bool {
	if hint, err := strconv.ParseBool(h.Get("X-Should-Retry")); err == nil {
		return &hint
	}
	return nil
}
