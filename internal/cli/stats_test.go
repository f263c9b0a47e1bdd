package cli

import (
	"testing"
)

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		Number(0): "-", Number(999): "999", Number(1000): "1,000", Number(-1234567): "-1,234,567",
		Dollars(0): "-", Dollars(0.00001): "<$0.0001", Dollars(0.0125): "$0.0125", Dollars(1.999): "$2.00", Dollars(1234.5): "$1,234.50", Dollars(0.99999): "$1.0000",
		Took(0): "0 ms", Took(999): "999 ms", Took(1000): "1.00 s", Took(61_000): "1m 01s", Took(3_661_000): "1h 01m",
		OneLine("a\n\x1b[31mb", 9): "a [31mb", OneLine("abcdef", 4): "abc…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
