package search

import (
	"testing"
	"time"
)

func TestDatesOfAQuery(t *testing.T) {
	for text, days := range map[string]map[string]bool{
		"what did we decide in March":            {"2026-03-01": true, "2025-03-31": true, "2026-04-01": false},
		"what did we decide on 2026-11-20?":      {"2026-11-20": true, "2026-11-21": false, "2025-11-20": false},
		"the trip of 8 May, 2023":                {"2023-05-08": true, "2023-05-09": false, "2024-05-08": false},
		"the trip of May 8":                      {"2023-05-08": true, "2024-05-08": true, "2024-05-09": false},
		"November 2025":                          {"2025-11-30": true, "2026-11-30": false},
		"who met in June or July":                {"2026-06-15": true, "2026-07-15": true, "2026-08-15": false},
		"may we march on?":                       nil,
		"port 8422 of 2026":                      nil,
		"the augustus statue":                    nil,
		"December 99999999999999999999 and more": {"2026-12-05": true},
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		named := q.Named()
		if (named == nil) != (days == nil) {
			t.Errorf("%s: names a date: %v", text, named != nil)
			continue
		}
		for day, want := range days {
			at, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			if named(at.UnixNano()) != want {
				t.Errorf("%s: %s is named: %v", text, day, !want)
			}
		}
	}
}
