package turns

import (
	"math"
	"testing"
)

func TestUsagePlusSaturates(t *testing.T) {
	a := Usage{InputTokens: math.MaxUint64 - 1, OutputTokens: 1, CacheRead: 2, CacheCreation: math.MaxUint64}
	got := a.Plus(Usage{InputTokens: 5, OutputTokens: 1, CacheRead: 2, CacheCreation: 1})
	if want := (Usage{InputTokens: math.MaxUint64, OutputTokens: 2, CacheRead: 4, CacheCreation: math.MaxUint64}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAddUsageTakesNilForNotReported(t *testing.T) {
	u := &Usage{InputTokens: 1}
	if AddUsage(nil, u) != u || AddUsage(u, nil) != u || AddUsage(nil, nil) != nil {
		t.Error("nil is not the zero of AddUsage")
	}
	if got := AddUsage(u, u); *got != (Usage{InputTokens: 2}) {
		t.Errorf("%+v", *got)
	}
}
