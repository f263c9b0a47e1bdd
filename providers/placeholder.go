package providers

import (
	"fmt"
	"regexp"
	"strings"
)

// VariableError reports a base URL that names an environment variable which is not set.
type VariableError struct{ Name, BaseURL string }

// Error names the variable and where it is needed.
func (e *VariableError) Error() string {
	return fmt.Sprintf("base url %q needs the environment variable %s, which is not set", e.BaseURL, e.Name)
}

// placeholder is the name of an environment variable in braces. Names in lower case are
// a protocol's own.
var placeholder = regexp.MustCompile(`\{([A-Z][A-Z0-9_]*)\}`)

// expand puts the values of environment variables where a base URL names them. Its error
// is a *VariableError.
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
