package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
)

const literals = 400_000

// verdict is the decoding of a literal: a number, a text, or an error.
type verdict struct {
	kind byte // n, s or x
	text string
}

func verdictOf(literal string) verdict {
	switch v, err := channels.ParseLossless([]byte(literal)); v := v.(type) {
	case json.Number:
		return verdict{'n', string(v)}
	case string:
		return verdict{'s', v}
	default:
		return verdict{'x', fmt.Sprint(v, err)}
	}
}

func losslessJSON(t *testing.T, all []string) []verdict {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "lossless.mjs")
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(all, "\n")+"\n"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node lossless.mjs: %v; run make interop to install its packages", err)
	}
	lines := strings.Split(string(bytes.TrimSuffix(out, []byte("\n"))), "\n")
	if len(lines) != len(all) {
		t.Fatalf("got %d of %d literals", len(lines), len(all))
	}
	verdicts := make([]verdict, len(lines))
	for i, line := range lines {
		verdicts[i] = verdict{line[0], line[1:]}
	}
	return verdicts
}

// randomLiteral generates edge cases: sizes near 2^53, more digits than a float64 has, exponents.
func randomLiteral(r *rand.Rand) string {
	digits := func(most int) string {
		var b strings.Builder
		for range 1 + r.IntN(most) {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
	whole := strings.TrimLeft(digits(20), "0")
	switch r.IntN(6) {
	case 0:
		whole = strconv.FormatInt(1<<53-20+r.Int64N(40), 10)
	case 1:
		whole = "0"
	}
	if whole == "" {
		whole = "0"
	}
	literal := whole
	if r.IntN(3) > 0 {
		literal += "." + []string{"0", "00", "5", digits(20), digits(4)}[r.IntN(5)]
	}
	if r.IntN(3) == 0 {
		literal += string("eE"[r.IntN(2)]) + []string{"", "+", "-"}[r.IntN(3)] + strconv.Itoa(r.IntN([]int{5, 25, 400}[r.IntN(3)]))
	}
	if r.IntN(3) == 0 {
		literal = "-" + literal
	}
	return literal
}

// outside reports, by exact arithmetic, whether a literal lies outside ±(2^53-1).
func outside(literal string) bool {
	v, ok := new(big.Rat).SetString(literal)
	return ok && v.Abs(v).Cmp(new(big.Rat).SetInt64(1<<53-1)) > 0
}

// decided returns the documented difference that two verdicts have, or "".
func decided(literal string, us, they verdict) string {
	plain := regexp.MustCompile(`^-?[0-9]+$`).MatchString(literal)
	switch {
	case us.kind == 's' && they.kind == 'n' && outside(literal) && !plain:
		return "large in another notation"
	case us.kind == 'n' && they.kind == 's' && !outside(literal) && !plain:
		return "more digits than a float64"
	case us.kind == 'x' && they.kind != 'x':
		return "not JSON"
	}
	return ""
}

func same(us, they verdict) bool {
	if us.kind != they.kind || us.kind == 'x' {
		return us.kind == they.kind
	}
	if us.kind == 's' {
		return us.text == they.text
	}
	a, errA := strconv.ParseFloat(us.text, 64)
	b, errB := strconv.ParseFloat(they.text, 64)
	return errA == nil && errB == nil && a == b
}

// TestLosslessNumbers compares the decoding of literals with lossless-json. Differences must be listed
// in docs/interoperability.md, and each listed one must occur.
func TestLosslessNumbers(t *testing.T) {
	page, err := os.ReadFile("../../docs/interoperability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| literals | example | parley | lossless-json | why |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/interoperability.md has no table of literals")
	}
	met := map[string]int{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if len(cells) != 5 {
			break
		}
		example := strings.Trim(cells[1], "`")
		us, they := verdictOf(example), losslessJSON(t, []string{example})[0]
		kinds := map[byte]string{'n': "number", 's': "text", 'x': "refused"}
		if decided(example, us, they) != cells[0] || kinds[us.kind] != cells[2] || kinds[they.kind] != cells[3] {
			t.Errorf("%s: got %s, lossless-json got %s: %s", example, kinds[us.kind], kinds[they.kind], line)
		}
		met[cells[0]] = 0
	}
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	all := []string{"01", "-", "+1", ".5", "e5", "5.", "1e", "-.5", "1.e1", "0x1", "NaN", "1_0", "--1", "00", "-01"}
	for len(all) < literals {
		all = append(all, randomLiteral(r))
	}
	kinds := map[byte]int{}
	for i, they := range losslessJSON(t, all) {
		us := verdictOf(all[i])
		kinds[us.kind]++
		if same(us, they) {
			continue
		}
		why := decided(all[i], us, they)
		if _, listed := met[why]; !listed {
			t.Errorf("%s: got %c %s, lossless-json got %c %s", all[i], us.kind, us.text, they.kind, they.text)
		}
		met[why]++
	}
	for why, n := range met {
		if n == 0 {
			t.Errorf("difference of docs/interoperability.md does not occur: %s", why)
		}
	}
	t.Logf("%d literals: %d numbers, %d texts, %d errors; documented differences: %v", len(all), kinds['n'], kinds['s'], kinds['x'], met)
}
