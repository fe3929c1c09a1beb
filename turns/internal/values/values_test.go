package values

import (
	"testing"
	"time"

	"nexus/turns"
)

func TestParseTime(t *testing.T) {
	at := time.Date(2026, 8, 11, 9, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Time{
		`"2026-08-11T11:00:00+02:00"`: at, `1786438800`: at, `1786438800000`: at, `"1786438800"`: at,
		`"1970-01-01T00:00:00.000Z"`: {}, `"1969-12-31T23:59:59Z"`: {}, `"0001-01-01T00:00:00Z"`: {}, `"9999999-01-01T00:00:00Z"`: {}, // a clock that was not set
		`0`: {}, `-1`: {}, `1e300`: {}, `"yesterday"`: {}, `null`: {}, `{}`: {},
	} {
		if got := ParseTime(turns.Raw(in)); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}
