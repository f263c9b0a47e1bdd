package providers

import (
	"fmt"
	"regexp"
	"strings"
)

// VariableError reports a base URL with an environment variable that is not set.
type VariableError struct{ Name, BaseURL string }

// Error returns the variable and the URL that needs it.
func (e *VariableError) Error() string {
	return fmt.Sprintf("base url %q needs the environment variable %s, which is not set", e.BaseURL, e.Name)
}

// placeholder matches the name of an environment variable in braces. Lower-case names are reserved for
// protocols.
var placeholder = regexp.MustCompile(`\{([A-Z][A-Z0-9_]*)\}`)

// expand replaces the environment variables in a base URL. It returns a *VariableError.
func expand(baseURL string, getenv func(string) string) (string, error) {
	var missing error
	expanded := placeholder.ReplaceAllStringFunc(baseURL, func(name string) string {
		name = name[1 : len(name)-1]
		value := strings.TrimSpace(getenv(name))
		if value == "" && missing == nil {
			missing = &VariableError{Name: name, BaseURL: baseURL}
		}
		return value
	})
	return expanded, missing
}
