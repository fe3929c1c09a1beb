package names

import (
	"fmt"
	"strconv"
	"time"

	"nexus/cmd/ledgerctl/fault"
	"nexus/ledger/api"
)

// ageUnits are those of an age such as 3d.
var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// Day reads a day, a time, or an age (3d: three days ago); nil if the flag is empty.
func Day(flag, value string) (*api.Time, error) {
	if value == "" {
		return nil, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, value); err == nil {
			t := api.Time(at)
			return &t, nil
		}
	}
	last := len(value) - 1
	n, err := strconv.ParseUint(value[:last], 10, 32)
	if unit := ageUnits[value[last]]; err == nil && unit > 0 && n <= uint64(100*365*24*time.Hour/unit) {
		t := api.Time(time.Now().Add(-time.Duration(n) * unit).UTC())
		return &t, nil
	}
	return nil, fault.Usage(fmt.Errorf("--%s takes a day, a time or an age, as 2026-11-22, 2026-11-22T14:00:00Z, 3d, 12h or 2w", flag))
}
