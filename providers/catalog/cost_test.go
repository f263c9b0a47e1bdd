package catalog_test

import (
	"compress/gzip"
	"encoding/json"
	"math/big"
	"os"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// priced contains the prices of the file, read without floats.
type priced struct {
	Providers []struct {
		ID     string
		Models []struct {
			ID    string
			Cost  []json.Number
			Tiers [][]json.Number
		}
	}
}

func readPrices(t *testing.T) (all priced) {
	t.Helper()
	f, err := os.Open("catalog.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// used returns usages with every kind of token, below and above the tier thresholds.
func used(t *testing.T, tiers [][]json.Number) (all []providers.Done) {
	t.Helper()
	prompts := []int64{0, 7, 1999}
	for _, tier := range tiers {
		begins, err := tier[0].Int64()
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, begins, begins+1)
	}
	for _, n := range prompts {
		all = append(all,
			providers.Done{Usage: providers.Usage{Input: n, Output: 1234, Reasoning: 1000}},
			providers.Done{Usage: providers.Usage{Input: n / 3, CacheRead: n / 3, CacheWrite: n - 2*(n/3), Output: 1}},
			providers.Done{Usage: providers.Usage{Input: 1, CacheRead: n / 2, CacheWrite: n / 2}, CacheWriteHour: n / 5, PriceFactor: 2.5},
			providers.Done{Usage: providers.Usage{CacheRead: n, Output: 77}, PriceFactor: 0.5},
		)
	}
	return all
}

// exact returns the price of a response, computed with fractions.
func exact(t *testing.T, cost []json.Number, tiers [][]json.Number, d providers.Done) *big.Rat {
	t.Helper()
	fraction := func(n json.Number) *big.Rat {
		r, ok := new(big.Rat).SetString(n.String())
		if !ok {
			t.Fatalf("%q is not a number", n)
		}
		return r
	}
	u, rates, above := d.Usage, cost, big.NewRat(-1, 1)
	prompt := big.NewRat(u.Input+u.CacheRead+u.CacheWrite, 1)
	for _, tier := range tiers {
		if begins := fraction(tier[0]); prompt.Cmp(begins) > 0 && begins.Cmp(above) > 0 {
			rates, above = tier[1:], begins
		}
	}
	sum := new(big.Rat)
	add := func(rate *big.Rat, tokens int64) { sum.Add(sum, new(big.Rat).Mul(rate, big.NewRat(tokens, 1_000_000))) }
	add(fraction(rates[0]), u.Input)
	add(fraction(rates[1]), u.Output)
	add(fraction(rates[2]), u.CacheRead)
	add(fraction(rates[3]), u.CacheWrite-d.CacheWriteHour)
	add(fraction(rates[0]), 2*d.CacheWriteHour)
	if d.PriceFactor > 0 {
		sum.Mul(sum, new(big.Rat).SetFloat64(d.PriceFactor))
	}
	return sum
}

// TestPricesAreExact compares the prices of every model with exact arithmetic, up to float precision.
// covers: providers/122, providers/123
func TestPricesAreExact(t *testing.T) {
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin()})
	// This fraction of a price allows for a few float64 roundings.
	precision, tiered, charged := big.NewRat(1, 1<<50), 0, 0
	for _, p := range readPrices(t).Providers {
		for _, entry := range p.Models {
			m, err := r.Resolve(p.ID + "/" + entry.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range used(t, entry.Tiers) {
				want := exact(t, entry.Cost, entry.Tiers, d)
				got := new(big.Rat).SetFloat64(m.Cost.PriceOf(d).Total)
				off := new(big.Rat).Sub(got, want)
				if off.Abs(off).Cmp(new(big.Rat).Mul(want, precision)) > 0 {
					t.Errorf("%s, %+v: %s, want %s", m.Spec(), d, got.FloatString(15), want.FloatString(15))
				}
				if want.Sign() > 0 {
					charged++
				}
			}
			tiered += len(entry.Tiers)
		}
	}
	if tiered < 266 || charged < 15_000 {
		t.Errorf("got %d tiers and %d prices, want more", tiered, charged)
	}
}
