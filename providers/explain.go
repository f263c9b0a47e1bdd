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
	return fmt.Sprintf("response is not an event stream but %s; check baseUrl", e.MediaType)
}

// Explain returns a sentence for end users: the failing party, the failure and the remedy. It contains
// no vendor text, address or secret. It may name an environment variable.
func (e *Error) Explain() string {
	who := e.Provider
	if who == "" {
		who = "The model"
	}
	answered := who
	if e.Status/100 > 2 {
		answered = fmt.Sprintf("%s answered %d", who, e.Status)
	}
	var page *StreamTypeError
	switch {
	case errors.As(e.Err, &page):
		return fmt.Sprintf("The answer of %s is not an event stream but %s; check its baseUrl.", who, page.MediaType)
	case e.Kind == KindAuth:
		return answered + ": " + e.explainKey() + "."
	case e.Kind == KindUnresolved:
		return "The model cannot be called: " + e.explainModel() + "."
	case e.Kind == KindInvalidRequest && e.Status == http.StatusNotFound:
		return answered + ": it knows no such model, or no such address; check the name of the model and baseUrl."
	case e.Status/100 == 3:
		return answered + ": it is to be asked elsewhere; check its baseUrl."
	}
	if words, ok := explanations[e.Kind]; ok {
		return answered + ": " + words + "."
	}
	return answered + ": it gave no answer."
}

// explanations has the sentences of kinds that need no details.
var explanations = map[ErrorKind]string{
	KindQuota:            "the account has no credit left; check its billing",
	KindRateLimit:        "it takes no more requests or tokens just now",
	KindOverloaded:       "it cannot answer just now",
	KindInvalidRequest:   "it does not take this request, and would not later; the server's log tells more",
	KindContextOverflow:  "the request is longer than the model takes",
	KindNetwork:          "it cannot be reached, or the connection broke; check the network and baseUrl",
	KindTruncated:        "its answer broke off before the end",
	KindProtocol:         "its answer has another format; check api and baseUrl",
	KindTooLong:          "its answer is longer than it may be",
	KindImageUnavailable: "a picture could not be read just now",
	KindImageUnreadable:  "a picture is missing, or not what it was",
	KindAborted:          "the call was given up",
	KindSilent:           "it said nothing for too long",
	KindTimeout:          "its answer took too long",
}

// explainKey explains a rejected key.
func (e *Error) explainKey() string {
	switch {
	case e.Key == FromRegistration:
		return "it refuses the API key; check that of its provider in the configuration"
	case e.Key != "":
		return "it refuses the API key; check " + e.Key
	case len(e.Wants) > 0:
		return "it wants an API key; set " + strings.Join(e.Wants, " or ")
	}
	return "it refuses the credentials; check them"
}

// explainModel explains why a model cannot be called.
func (e *Error) explainModel() string {
	var variable *VariableError
	var model *ModelError
	switch {
	case errors.As(e.Err, &variable):
		return fmt.Sprintf("its address needs %s; set it", variable.Name)
	case errors.As(e.Err, &model) && errors.Is(model.Err, ErrNoPrice):
		return fmt.Sprintf("%q has no price, and the agent calls models with a price only; set cost of the model below providers", model.Spec)
	case errors.As(e.Err, &model):
		return fmt.Sprintf("%q is none that is known here; check its name", model.Spec)
	}
	return "it is not known here; check its name"
}
