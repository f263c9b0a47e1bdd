package googlegenerativeai

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// skipSignature is what the vendor documents for calls that its model has not made: a call
// with it is taken without a signature.
const skipSignature = "skip_thought_signature_validator"

// signed is the signature of text or reasoning that ends with a part of n bytes which the
// vendor has signed. What stands before that part is not to be merged with it.
func signed(n int, signature string) string { return strconv.Itoa(n) + ":" + signature }

// unsigned is the inverse: it cuts a text into what was not signed and what was. ok is
// false if the signature is none of this format, or of another text.
func unsigned(text, signature string) (before, part, vendors string, ok bool) {
	length, vendors, found := strings.Cut(signature, ":")
	n, err := strconv.Atoi(length)
	if !found || err != nil || n < 0 || n > len(text) || vendors == "" {
		return text, "", "", false
	}
	cut := len(text) - n
	if cut < len(text) && !utf8.RuneStart(text[cut]) {
		return text, "", "", false
	}
	return text[:cut], text[cut:], vendors, true
}
