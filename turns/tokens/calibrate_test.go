package tokens

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"nexus/turns"
)

func TestCalibrationFollowsTheReports(t *testing.T) {
	type pair struct{ estimate, reported uint64 }
	for _, test := range []struct {
		name    string
		samples []pair
		want    Calibration
		applied uint64 // to 10,000
	}{
		{"none", nil, Calibration{}, 10_000},
		{"one is taken whole", []pair{{10_000, 13_000}}, Calibration{1_300_000, 1}, 13_000},
		{"two evenly", []pair{{10_000, 13_000}, {1_000, 900}}, Calibration{1_100_000, 2}, 11_000},
		{"three evenly", []pair{{10_000, 13_000}, {1_000, 900}, {1_000, 1_700}}, Calibration{1_300_000, 3}, 13_000},
		{"a fourth by 3/10", []pair{{1_000, 1_000}, {1_000, 1_000}, {1_000, 1_000}, {1_000, 2_000}}, Calibration{1_300_000, 4}, 13_000},
		{"clamped above", []pair{{10_000, 35_000}}, Calibration{2_000_000, 1}, 20_000},
		{"clamped below", []pair{{10_000, 3_000}}, Calibration{500_000, 1}, 5_000},
		{"too small", []pair{{99, 200}}, Calibration{}, 10_000},
		{"just large enough", []pair{{100, 200}}, Calibration{2_000_000, 1}, 20_000},
		{"just plausible", []pair{{1_000, 4_003}, {4_003, 1_000}}, Calibration{1_250_000, 2}, 12_500},
		{"just implausible", []pair{{1_000, 4_004}, {4_004, 1_000}}, Calibration{}, 10_000},
		{"no report", []pair{{10_000, 0}}, Calibration{}, 10_000},
		{"nothing estimated", []pair{{0, 500}}, Calibration{}, 10_000},
		{"another context", []pair{{10_000, 13_000}, {1_000, 90_000}, {90_000, 1_000}}, Calibration{1_300_000, 1}, 13_000},
		{"no overflow", []pair{{math.MaxUint64, math.MaxUint64 / 2}}, Calibration{500_000, 1}, 5_000},
	} {
		var c Calibration
		for _, s := range test.samples {
			c = c.Observe(s.estimate, s.reported)
		}
		if c != test.want || c.Apply(10_000) != test.applied {
			t.Errorf("%s: %+v, 10,000 are %d; want %+v and %d", test.name, c, c.Apply(10_000), test.want, test.applied)
		}
	}
}

func TestApplyRoundsUpAndNeverOverflows(t *testing.T) {
	for _, test := range []struct {
		c              Calibration
		estimate, want uint64
	}{
		{Calibration{}, math.MaxUint64, math.MaxUint64},
		{Calibration{Ratio: 1_000_001}, 1, 2}, // up
		{Calibration{Ratio: 1_300_000}, 0, 0},
		{Calibration{Ratio: 2_000_000}, math.MaxUint64, math.MaxUint64},
		{Calibration{Ratio: 2_000_000}, 1 << 63, math.MaxUint64}, // one more than fits
		{Calibration{Ratio: 2_000_000}, 1<<63 - 1, math.MaxUint64 - 1},
		{Calibration{Ratio: 1}, 10, 5}, // stored by something else
		{Calibration{Ratio: math.MaxUint32, Samples: math.MaxUint32}, 10, 20},
	} {
		if got := test.c.Apply(test.estimate); got != test.want {
			t.Errorf("%+v of %d: %d, want %d", test.c, test.estimate, got, test.want)
		}
	}
	full := Calibration{Ratio: unit, Samples: math.MaxUint32}.Observe(1000, 1000)
	if want := (Calibration{Ratio: unit, Samples: math.MaxUint32}); full != want {
		t.Errorf("after the last sample %+v, want %+v", full, want)
	}
}

// With reports that scatter by 10 % about a true ratio, the calibrated
// estimate is off by less than those after 20 calls, whatever was believed
// before; an uncalibrated one stays off by the ratio.
func TestCalibrationConverges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		truth := 0.55 + 1.3*r.Float64()
		c := Calibration{Ratio: uint32(minRatio + r.IntN(maxRatio-minRatio)), Samples: uint32(r.IntN(100))}
		for range 20 {
			estimate := 1000 + r.Uint64N(200_000)
			c = c.Observe(estimate, uint64(float64(estimate)*truth*(0.9+0.2*r.Float64())))
		}
		if got := float64(c.Apply(1_000_000)) / 1_000_000 / truth; got < 0.9 || got > 1.1 {
			t.Errorf("true ratio %.3f, calibrated %d: off by the factor %.3f", truth, c.Ratio, got)
		}
	}
}

// Without scatter it is exact to a few millionths, and the bounds hold for any
// samples.
func TestCalibrationStaysInItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Calibration{Ratio: rapid.Uint32().Draw(t, "ratio"), Samples: rapid.Uint32().Draw(t, "samples")}
		for range rapid.IntRange(1, 10).Draw(t, "n") {
			next := c.Observe(rapid.Uint64().Draw(t, "estimate"), rapid.Uint64().Draw(t, "reported"))
			if next != c && (next.Ratio < minRatio || next.Ratio > maxRatio || next.Samples < c.Samples) {
				t.Fatalf("%+v became %+v", c, next)
			}
			c = next
		}
		e := rapid.Uint64Range(0, 1<<60).Draw(t, "applied to")
		if got := c.Apply(e); got < e/2 || got > 2*e {
			t.Fatalf("%+v of %d: %d", c, e, got)
		}
		reported := rapid.Uint64Range(60_000, 190_000).Draw(t, "true")
		for range 60 {
			c = c.Observe(100_000, reported)
		}
		if got := c.Apply(100_000); got+2 < reported || got > reported+2 {
			t.Fatalf("%+v: %d, want %d", c, got, reported)
		}
	})
}

func TestCalibrationIsStored(t *testing.T) {
	for _, c := range []Calibration{{}, {Ratio: 1_234_567, Samples: 8}} {
		j, err := turns.EncodeJSON(c)
		if err != nil {
			t.Fatal(err)
		}
		b, err := cbor.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromCBOR Calibration
		if err := turns.DecodeJSON(j, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := cbor.Unmarshal(b, &fromCBOR); err != nil {
			t.Fatal(err)
		}
		if fromJSON != c || fromCBOR != c {
			t.Errorf("%+v: %s is %+v, %x is %+v", c, j, fromJSON, b, fromCBOR)
		}
	}
}
