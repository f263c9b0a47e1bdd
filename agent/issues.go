package agent

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Validation computes with exact rationals, so a short literal such as 1e999999 would cost memory out
// of proportion to its size. All Go numbers are within these bounds.
const (
	maxNumberDigits   = 1000
	maxNumberExponent = 400
)

// normalizeNumber replaces an integer written with a fraction or an exponent by its digits. JSON
// schema accepts it as an integer, and Go does not. It reports false for a number beyond the bounds.
func normalizeNumber(n json.Number) (json.Number, bool) {
	if len(n) > maxNumberDigits {
		return "", false
	}
	i := strings.IndexAny(string(n), "eE")
	if i >= 0 {
		exp, err := strconv.Atoi(string(n[i+1:]))
		if err != nil || exp > maxNumberExponent || exp < -maxNumberExponent {
			return "", false
		}
	}
	if !strings.ContainsAny(string(n), ".eE") {
		return n, true
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return "", false
	}
	// Numbers beyond Go's integers stay as they are, such as 1e300.
	if r.IsInt() && (r.Num().IsInt64() || r.Num().IsUint64()) {
		return json.Number(r.Num().String()), true
	}
	return n, true
}

// escapePointer encodes a member's name as a token of a JSON pointer.
func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// describe returns the text of a violation: our own for the common kinds, and the library's for the
// rest.
func describe(problem jsonschema.ErrorKind) string {
	switch k := problem.(type) {
	case *kind.Type:
		return fmt.Sprintf("got %s, want %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Required:
		return "missing " + quoteAll(k.Missing)
	case *kind.AdditionalProperties:
		return "unknown member " + quoteAll(k.Properties)
	case *kind.Format:
		return formatProblem(k.Want)
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters, want at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters, want at most %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %d items, want at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d items, want at most %d", k.Got, k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	}
	unit := (&jsonschema.ValidationError{ErrorKind: problem}).BasicOutput()
	if unit.Error == nil {
		return "does not fit the schema"
	}
	return unit.Error.String()
}

// quoteAll joins names in a stable order.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	slices.Sort(quoted)
	return strings.Join(quoted, ", ")
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
