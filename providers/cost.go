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

// CostTier contains the rates for prompts longer than InputTokensAbove tokens, cached tokens included.
type CostTier struct {
	InputTokensAbove int64 `json:"inputTokensAbove"`
	Rates
}

// Price is the price of a response in US dollars.
type Price struct {
	Input, Output, CacheRead, CacheWrite, Total float64
}

// PriceOf returns the price of a response: its usage at the rate of its service tier. The total is the
// amount billed by the vendor if it reports one.
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

// Price returns the price of u in the tier of its prompt.
func (c Cost) Price(u Usage) Price { return c.price(u, 0) }

// price is Price with hour tokens written to a one-hour cache, which cost twice the input rate.
func (c Cost) price(u Usage, hour int64) Price {
	rates, above := c.Rates, int64(-1)
	for _, t := range c.Tiers {
		if prompt := u.Input + u.CacheRead + u.CacheWrite; prompt > t.InputTokensAbove && t.InputTokensAbove > above {
			rates, above = t.Rates, t.InputTokensAbove
		}
	}
	hour = min(hour, u.CacheWrite) // hour is part of CacheWrite even if a server reports more
	// The order of operations keeps the last digits equal to those of the catalog's own tools. The
	// conversions prevent fused multiply-add for the same reason.
	p := Price{
		Input:      rates.Input / 1e6 * float64(u.Input),
		Output:     rates.Output / 1e6 * float64(u.Output),
		CacheRead:  rates.CacheRead / 1e6 * float64(u.CacheRead),
		CacheWrite: (float64(rates.CacheWrite*float64(u.CacheWrite-hour)) + float64(rates.Input*2*float64(hour))) / 1e6,
	}
	p.Total = p.Input + p.Output + p.CacheRead + p.CacheWrite
	return p
}
