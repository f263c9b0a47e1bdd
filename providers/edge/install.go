package edge

import (
	"fmt"
	"time"

	"github.com/parleyrun/parley/providers"
)

// DefaultProvider is the id under which Install registers the binding.
const DefaultProvider = "cloudflare"

// MinCompatibilityDate is the oldest compatibility date of the platform that Install takes.
const MinCompatibilityDate = "2026-04-01"

// CompatibilityDateError reports a compatibility date that Install does not take.
type CompatibilityDateError struct {
	// Date is what was given.
	Date string
}

// Error names the date and those that are taken.
func (e *CompatibilityDateError) Error() string {
	return fmt.Sprintf("install edge binding: compatibility date %q: set one from %s on, as year-month-day", e.Date, MinCompatibilityDate)
}

// Install makes r the registry of a program on an edge platform: it registers the protocol
// of bindings, in the place of any other, and binding under DefaultProvider, unless the
// application has registered that id already. compatibilityDate is the program's, as the
// platform has it ("2026-04-01"). Its only error is *CompatibilityDateError, and then
// nothing is registered.
func Install(r *providers.Registry, binding providers.EdgeBinding, compatibilityDate string) error {
	// Dates of this form sort as texts do.
	if _, err := time.Parse(time.DateOnly, compatibilityDate); err != nil || compatibilityDate < MinCompatibilityDate {
		return &CompatibilityDateError{Date: compatibilityDate}
	}
	r.RegisterProtocol(API, New(nil))
	if r.Registered(DefaultProvider) {
		return nil
	}
	return r.RegisterProvider(DefaultProvider, providers.Registration{API: API, Edge: &providers.Edge{Binding: binding}})
}
