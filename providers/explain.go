package providers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// StreamTypeError reports a response that is not an event stream, such as the page of a web server.
type StreamTypeError struct{ MediaType string }

// Error returns the media type.
func (e *StreamTypeError) Error() string {
	return fmt.Sprintf("response is %s instead of an event stream; check baseUrl", e.MediaType)
}

// Explain returns a sentence for end users: the failing party, the failure and the remedy. It contains
// no vendor text, address or secret. It may name an environment variable.
func (e *Error) Explain() string {
	provider := e.Provider
	if provider == "" {
		provider = "The model"
	}
	answered := provider
	if e.Status/100 > 2 {
		answered = fmt.Sprintf("%s returned %d", provider, e.Status)
	}
	var page *StreamTypeError
	switch {
	case errors.As(e.Err, &page):
		return fmt.Sprintf("%s returned %s instead of an event stream; check its baseUrl.", provider, page.MediaType)
	case e.Kind == KindAuth:
		return answered + ": " + e.explainKey() + "."
	case e.Kind == KindUnresolved:
		return "The model cannot be called: " + e.explainModel() + "."
	case e.Kind == KindInvalidRequest && e.Status == http.StatusNotFound:
		return answered + ": the model or the address is unknown; check the model name and baseUrl."
	case e.Status/100 == 3:
		return answered + ": it redirects to another address; check its baseUrl."
	}
	if explanation, ok := explanations[e.Kind]; ok {
		return answered + ": " + explanation + "."
	}
	return answered + ": the call failed."
}

// explanations has the sentences of kinds that need no details.
var explanations = map[ErrorKind]string{
	KindQuota:            "the account has no credit left; check its billing",
	KindRateLimit:        "the rate limit is exceeded; retry later",
	KindOverloaded:       "the service is unavailable; retry later",
	KindInvalidRequest:   "the request is invalid; see the server's log",
	KindContextOverflow:  "the request exceeds the model's context window",
	KindNetwork:          "the connection failed; check the network and baseUrl",
	KindTruncated:        "the response was truncated",
	KindProtocol:         "the response has an unexpected format; check api and baseUrl",
	KindTooLong:          "the response exceeds the size limit",
	KindImageUnavailable: "an image is temporarily unavailable",
	KindImageUnreadable:  "an image is missing or has changed",
	KindAborted:          "the call was aborted",
	KindSilent:           "no data arrived before the timeout",
	KindTimeout:          "the response exceeded the timeout",
}

// explainKey explains a rejected key.
func (e *Error) explainKey() string {
	switch {
	case e.Key == FromRegistration:
		return "the API key was rejected; check the provider's apiKey in the configuration"
	case e.Key != "":
		return "the API key was rejected; check " + e.Key
	case len(e.Wants) > 0:
		return "an API key is required; set " + strings.Join(e.Wants, " or ")
	}
	return "the credentials were rejected; check them"
}

// explainModel explains why a model cannot be called.
func (e *Error) explainModel() string {
	var variable *VariableError
	var model *ModelError
	switch {
	case errors.As(e.Err, &variable):
		return fmt.Sprintf("baseUrl needs the variable %s; set it", variable.Name)
	case errors.As(e.Err, &model) && errors.Is(model.Err, ErrNoPrice):
		return fmt.Sprintf("%q has no price, and the agent calls models with a price only; set cost of the model below providers", model.Spec)
	case errors.As(e.Err, &model):
		return fmt.Sprintf("%q is unknown; check the model name", model.Spec)
	}
	return "it is unknown; check the model name"
}
