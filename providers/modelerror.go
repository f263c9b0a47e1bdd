package providers

import (
	"errors"
	"fmt"
	"strings"
)

// Conditions that a *ModelError reports.
var (
	// ErrNoSlash: the specifier is not of the form provider/model.
	ErrNoSlash = errors.New("model specifier has no slash")
	// ErrNoModelID: the specifier ends after the slash of a known provider.
	ErrNoModelID = errors.New("model specifier has no model id")
	// ErrUnknownProvider: the provider is neither registered nor in the catalog.
	ErrUnknownProvider = errors.New("provider is neither registered nor in the catalog")
	// ErrUnknownModel: the model is not listed. The provider is not registered and its catalog does
	// not list the model, or it is a Provider that does not list it.
	ErrUnknownModel = errors.New("model is not listed by its provider")
	// ErrUnlistedModel is the ErrUnknownModel of a provider that is only in the catalog.
	ErrUnlistedModel = fmt.Errorf("%w in the catalog; register the provider to call models that the catalog does not list", ErrUnknownModel)
	// ErrNoPrice: the model has no price, and its caller calls models with a price only.
	ErrNoPrice = errors.New("no price of the model is known; set cost of the model below providers, or name a model with a price")
	// ErrUnknownProtocol: no protocol is registered for the model's api slug.
	ErrUnknownProtocol = errors.New("no protocol is registered for the model's api")
)

// maxKnown is the maximum number of names in an error.
const maxKnown = 8

// ModelError reports a specifier that does not name a callable model.
type ModelError struct {
	// Spec is the specifier as given.
	Spec string
	// API is the slug that has no protocol; set for ErrUnknownProtocol only.
	API string
	// Known lists the registered ids for ErrUnknownProvider, sorted, or the models of a Provider for
	// ErrUnknownModel.
	Known []string
	// Err is one of the conditions, or a *VariableError.
	Err error
}

// Error returns specifier and condition, and up to eight known names.
func (e *ModelError) Error() string {
	s := "resolve model \"" + e.Spec + "\": " + e.Err.Error()
	switch {
	case errors.Is(e.Err, ErrUnknownProtocol):
		return s + " \"" + e.API + "\""
	case errors.Is(e.Err, ErrUnknownProvider):
		return s + "; registered: " + shortList(e.Known)
	case errors.Is(e.Err, ErrUnknownModel) && !errors.Is(e.Err, ErrUnlistedModel):
		return s + "; listed: " + shortList(e.Known)
	}
	return s
}

func shortList(names []string) string {
	switch {
	case len(names) == 0:
		return "(none)"
	case len(names) > maxKnown:
		return strings.Join(names[:maxKnown], ", ") + fmt.Sprintf(", … (%d total)", len(names))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns the condition.
func (e *ModelError) Unwrap() error { return e.Err }
