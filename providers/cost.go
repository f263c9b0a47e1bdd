package providers

// Cost is a price list, in US dollars per million tokens.
type Cost struct {
	Rates
	// Tiers replace Rates for long prompts.
	Tiers []CostTier `json:"tiers,omitempty"`
}

// Known reports whether there is a price. Rates of 0 alone are none.
func (c Cost) Known() bool { return c.Rates != Rates{} || len(c.Tiers) > 0 }

// Rates are prices in US dollars per million tokens.
type Rates struct {
	Input      float64 `json:"input,omitempty"`
	Output     float64 `json:"output,omitempty"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
}

// CostTier holds the rates of prompts longer than InputTokensAbove tokens,
// cached ones included.
type CostTier struct {
	InputTokensAbove int64 `json:"inputTokensAbove"`
	Rates
}

// Price is what a response costs, in US dollars.
type Price struct {
	Input, Output, CacheRead, CacheWrite, Total float64
}

// PriceOf returns what a response costs: its usage at the rate of its service tier, and in
// total what its vendor has billed, if it says so.
func (c Cost) PriceOf(d Done) Price {
	p := c.price(d.Usage, d.CacheWriteHour)
	if f := d.PriceFactor; f > 0 && f != 1 {
		p.Input, p.Output, p.CacheRead, p.CacheWrite = p.Input*f, p.Output*f, p.CacheRead*f, p.CacheWrite*f
		p.Total = p.Input + p.Output + p.CacheRead + p.CacheWrite
	}
	if d.Billed != nil {
		p.Total = *d.Billed
	}
	return p
}

// Price returns what u costs under the tier its prompt falls in.
func (c Cost) Price(u Usage) Price { return c.price(u, 0) }

// price is Price where the cache keeps some of what it wrote for an hour, which costs twice
// what input does.
func (c Cost) price(u Usage, hour int64) Price {
	rates, above := c.Rates, int64(-1)
	for _, t := range c.Tiers {
		if prompt := u.Input + u.CacheRead + u.CacheWrite; prompt > t.InputTokensAbove && t.InputTokensAbove > above {
			rates, above = t.Rates, t.InputTokensAbove
		}
	}
	hour = min(hour, u.CacheWrite) // it is a part of that, whatever a server says
	// The order of operations keeps the last digits equal to those of the catalog's own
	// tools; so do the conversions, where a processor could round a product and a sum in one.
	p := Price{
		Input:      rates.Input / 1e6 * float64(u.Input),
		Output:     rates.Output / 1e6 * float64(u.Output),
		CacheRead:  rates.CacheRead / 1e6 * float64(u.CacheRead),
		CacheWrite: (float64(rates.CacheWrite*float64(u.CacheWrite-hour)) + float64(rates.Input*2*float64(hour))) / 1e6,
	}
	p.Total = p.Input + p.Output + p.CacheRead + p.CacheWrite
	return p
}
