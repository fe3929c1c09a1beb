package names

import (
	"testing"
	"time"

	"nexus/ledger/api"
)

// A day is that of the zone, in every form.
func TestDaysBeginInTheZone(t *testing.T) {
	west := time.FixedZone("PST", -8*3600)
	now := time.Date(2026, 11, 26, 3, 30, 0, 0, time.UTC) // the 25th in the west
	for value, want := range map[string]string{
		"2026-11-25":           "2026-11-25T08:00:00Z",
		"today":                "2026-11-25T08:00:00Z",
		"Yesterday":            "2026-11-24T08:00:00Z",
		"2026-11-25T14:00":     "2026-11-25T22:00:00Z",
		"2026-11-25 14:00":     "2026-11-25T22:00:00Z",
		"2026-11-25 14:00:05":  "2026-11-25T22:00:05Z",
		"2026-11-25T14:00:00Z": "2026-11-25T14:00:00Z",
		"3d":                   "2026-11-23T03:30:00Z",
		"12h":                  "2026-11-25T15:30:00Z",
		"2w":                   "2026-11-12T03:30:00Z",
		"0d":                   "2026-11-26T03:30:00Z",
		"3 days ago":           "2026-11-23T03:30:00Z",
		"1 Week ago":           "2026-11-19T03:30:00Z",
	} {
		at, err := DayIn(west, now, "since", value)
		if err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v; want %s", value, at.UTC(), err, want)
		}
	}
	for _, value := range []string{"tomorrow", "2026-13-01", "3x", "d", "-1d", "25", "2026-11-25T14", "1 month ago", "3 days", "x days ago"} {
		if at, err := DayIn(west, now, "since", value); err == nil {
			t.Errorf("%s is %v", value, at)
		}
	}
	if at, err := DayIn(west, now, "since", ""); err != nil || !at.IsZero() {
		t.Errorf("an empty flag: %v, %v", at, err)
	}
	from := api.Time(time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC))
	if got := SpanIn(west, &from, nil); got != "from 2026-11-25 00:00 PST on" {
		t.Errorf("%q", got)
	}
	if got := SpanIn(west, nil, &from) + SpanIn(west, nil, nil); got != "before 2026-11-25 00:00 PST" {
		t.Errorf("%q", got)
	}
}

// A day is in the span that it ends, as a person means it; a time or an age is not.
func TestUntilADayHasTheDay(t *testing.T) {
	zone := time.FixedZone("PST", -8*3600)
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, zone)
	for value, want := range map[string]string{
		"":                 "0001-01-01T00:00:00Z",
		"2026-11-22":       "2026-11-23T08:00:00Z",
		"today":            "2026-11-26T08:00:00Z",
		"Yesterday":        "2026-11-25T08:00:00Z",
		"2026-11-22T14:00": "2026-11-22T22:00:00Z",
		"1d":               "2026-11-24T20:00:00Z",
		"now":              "2026-11-25T20:00:00Z",
	} {
		if got, err := UntilIn(zone, now, "until", value); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", value, got.UTC(), err, want)
		}
	}
	if _, err := UntilIn(zone, now, "until", "soon"); err == nil {
		t.Error("soon is a time")
	}
}
