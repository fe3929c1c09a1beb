package tokens

import (
	"math"
	"math/bits"
)

// Calibration is how much a provider counts for what a counter estimates, as
// an exponentially weighted mean of reported over estimated tokens. It is a
// value: Observe returns the next one and changes nothing. The zero value is
// no calibration: Apply returns the estimate.
//
// Keep one for each pair of counter and model. Both arguments of Observe are
// of one and the same context, system part and tools included.
type Calibration struct {
	Ratio   uint32 `cbor:"1,keyasint,omitempty" json:"ratio_ppm,omitempty"` // millionths, in [500000, 2000000]; 0: no sample yet
	Samples uint32 `cbor:"2,keyasint,omitempty" json:"samples,omitempty"`   // taken; ignored ones aren't counted
}

const (
	unit = 1_000_000 // ratio 1, in millionths

	// What is applied stays within a half and the double, so that no run of
	// bad reports makes a context far too large or empty.
	minRatio, maxRatio = unit / 2, 2 * unit

	// A later sample weighs 3/10: after four of them three quarters of an old
	// ratio are gone.
	weightNum, weightDen = 3, 10

	// An estimate under minEstimate is mostly framing, and a report that is
	// more than implausible times off is of another context.
	minEstimate = 100
	implausible = 4
)

// Observe returns c after one more sample: a provider reported so many input tokens,
// cached ones included, for the estimate of the counter (before Apply). The first
// sample sets the ratio, the second and third make an even mean, and each later one
// weighs 3/10. A ratio outside [0.5, 2] counts as the nearer end. Observe ignores an
// estimate under 100, a report of 0, and a ratio over 4 or under 1/4.
func (c Calibration) Observe(estimate, reported uint64) Calibration {
	if estimate < minEstimate || reported == 0 || reported/implausible > estimate || estimate/implausible > reported {
		return c
	}
	hi, lo := bits.Mul64(reported, unit)
	quo, _ := bits.Div64(hi, lo, estimate) // at most 5 × unit
	sample := int64(clampRatio(quo))

	ratio, n := int64(c.ratio()), int64(c.Samples)+1
	if n*weightNum <= weightDen {
		ratio += (sample - ratio) / n
	} else {
		ratio += (sample - ratio) * weightNum / weightDen
	}
	return Calibration{Ratio: uint32(ratio), Samples: uint32(min(n, math.MaxUint32))}
}

// Apply is the tokens that the provider would report for what was estimated,
// rounded up.
func (c Calibration) Apply(estimate uint64) uint64 {
	hi, lo := bits.Mul64(estimate, c.ratio())
	if hi >= unit {
		return math.MaxUint64
	}
	quo, rem := bits.Div64(hi, lo, unit)
	if rem > 0 && quo < math.MaxUint64 {
		quo++
	}
	return quo
}

// ratio is what Apply multiplies by, in millionths; within bounds also where
// the value was stored by something else.
func (c Calibration) ratio() uint64 {
	if c.Ratio == 0 {
		return unit
	}
	return clampRatio(uint64(c.Ratio))
}

func clampRatio(r uint64) uint64 { return min(max(r, minRatio), maxRatio) }
