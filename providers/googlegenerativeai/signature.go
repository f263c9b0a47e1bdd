package googlegenerativeai

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// skipSignature is the documented placeholder for the signature of a call that the vendor's model did
// not make.
const skipSignature = "skip_thought_signature_validator"

// signed returns the signature of text or reasoning that ends with a signed part of n bytes. The text
// before that part must not be merged with it.
func signed(n int, signature string) string { return strconv.Itoa(n) + ":" + signature }

// unsigned is the inverse of signed: it splits a text into its unsigned and signed parts. ok is false
// if the signature has another format or belongs to another text.
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
