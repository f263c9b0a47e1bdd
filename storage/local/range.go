package local

import (
	"net/http"
	"strconv"
	"strings"
)

// parseRange returns the first byte and the length of the one range that a Range
// header asks for in an object of size bytes. The length is at least 1.
func parseRange(header string, size int64) (first, length int64, err error) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return 0, 0, invalidArgument("range %q is not in bytes", header)
	}
	if strings.Contains(spec, ",") {
		return 0, 0, notImplemented("more than one range is not implemented")
	}
	from, to, ok := strings.Cut(spec, "-")
	if !ok || from == "" && to == "" {
		return 0, 0, invalidArgument("range %q has no bounds", header)
	}
	a, aerr := parseBound(from)
	b, berr := parseBound(to)
	if aerr != nil || berr != nil || from != "" && to != "" && a > b {
		return 0, 0, invalidArgument("range %q has bad bounds", header)
	}
	if from == "" {
		a, b = size-min(b, size), size-1
	} else if to == "" || b >= size {
		b = size - 1
	}
	if a > b {
		return 0, 0, &apiError{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "the object has no such bytes"}
	}
	return a, b - a + 1, nil
}

// parseBound reads digits only: no sign. Empty is 0.
func parseBound(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}
