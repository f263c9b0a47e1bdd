package edge

import (
	"fmt"
	"time"

	"github.com/parleyrun/parley/providers"
)

// DefaultProvider is the id under which Install registers the binding.
const DefaultProvider = "cloudflare"

// MinCompatibilityDate is the oldest supported compatibility date of the platform.
const MinCompatibilityDate = "2026-04-01"

// CompatibilityDateError reports an unsupported compatibility date.
type CompatibilityDateError struct {
	// Date is the argument of Install.
	Date string
}

// Error returns the date and the supported range.
func (e *CompatibilityDateError) Error() string {
	return fmt.Sprintf("install edge binding: compatibility date %q: set one from %s on, as year-month-day", e.Date, MinCompatibilityDate)
}

// Install prepares r for a program on an edge platform. It registers the protocol of bindings,
// replacing any other. It registers binding under DefaultProvider, unless the application has
// registered that id. compatibilityDate is the program's, such as "2026-04-01". Its only error is
// *CompatibilityDateError; nothing is registered then.
func Install(r *providers.Registry, binding providers.EdgeBinding, compatibilityDate string) error {
	// Dates in this format sort as strings.
	if _, err := time.Parse(time.DateOnly, compatibilityDate); err != nil || compatibilityDate < MinCompatibilityDate {
		return &CompatibilityDateError{Date: compatibilityDate}
	}
	r.RegisterProtocol(API, New(nil))
	if r.Registered(DefaultProvider) {
		return nil
	}
	return r.RegisterProvider(DefaultProvider, providers.Registration{API: API, Edge: &providers.Edge{Binding: binding}})
}
