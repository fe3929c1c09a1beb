package names

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// ageUnits are those of an age such as 3d.
var ageUnits = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// DayHelp says in the help of a verb what [Day] reads.
const DayHelp = "a day (2026-11-22, today, yesterday), a time or an age (3d); days begin in the local zone"

// Day reads what a flag says of a time: a day, which begins in the local zone, a time, or an
// age (3d: 72 hours ago); nil if the flag is empty. Every verb reads it so.
func Day(flag, value string) (*api.Time, error) {
	at, err := DayIn(time.Local, time.Now(), flag, value)
	if err != nil || at.IsZero() {
		return nil, err
	}
	t := api.Time(at.UTC())
	return &t, nil
}

// UntilHelp says in the help of a verb what [Until] reads.
const UntilHelp = "up to the end of a day (2026-11-22, today, yesterday), or before a time or an age (3d)"

// Until reads the end of a span of time as [Day] reads its beginning: a day is in the span, as a
// person means it, a time or an age is not.
func Until(flag, value string) (*api.Time, error) {
	at, err := UntilIn(time.Local, time.Now(), flag, value)
	if err != nil || at.IsZero() {
		return nil, err
	}
	t := api.Time(at.UTC())
	return &t, nil
}

// UntilIn is [Until] in a zone at a time. The zero time is that of an empty flag.
func UntilIn(zone *time.Location, now time.Time, flag, value string) (time.Time, error) {
	at, err := DayIn(zone, now, flag, value)
	if err != nil || at.IsZero() {
		return at, err
	}
	_, notADay := time.ParseInLocation(time.DateOnly, value, zone)
	if word := strings.ToLower(value); notADay == nil || word == "today" || word == "yesterday" {
		year, month, day := at.In(zone).Date()
		at = time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	}
	return at, nil
}

// age is "3 days ago", as git writes an age, in its short form: 3d. It returns what is no such age as
// it is.
func age(value string) string {
	words := strings.Fields(strings.ToLower(value))
	if len(words) != 3 || words[2] != "ago" {
		return value
	}
	switch unit := strings.TrimSuffix(words[1], "s"); unit {
	case "minute", "hour", "day", "week":
		return words[0] + unit[:1]
	}
	return value
}

// DayIn is [Day] in a zone at a time. The zero time is that of an empty flag.
func DayIn(zone *time.Location, now time.Time, flag, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	year, month, day := now.In(zone).Date()
	switch strings.ToLower(value) {
	case "today":
		return time.Date(year, month, day, 0, 0, 0, 0, zone), nil
	case "yesterday":
		return time.Date(year, month, day-1, 0, 0, 0, 0, zone), nil
	case "now":
		return now, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime} {
		if at, err := time.ParseInLocation(layout, value, zone); err == nil {
			return at, nil
		}
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at, nil
	}
	value = age(value)
	last := len(value) - 1
	n, err := strconv.ParseUint(value[:last], 10, 32)
	if unit := ageUnits[value[last]]; err == nil && unit > 0 && n <= uint64(100*365*24*time.Hour/unit) {
		return now.Add(-time.Duration(n) * unit), nil
	}
	return time.Time{}, fault.Usage(fmt.Errorf("--%s takes a day, a time or an age, as 2026-11-22, today, yesterday, 2026-11-22T14:00, 2026-11-22T14:00:00Z, 3d, 12h or 2w", flag))
}

// Span says which times a verb was asked for, in the local zone: "from 2026-11-22 00:00 CET
// on, before 2026-11-23 00:00 CET"; "" for all.
func Span(from, to *api.Time) string { return SpanIn(time.Local, from, to) }

// SpanIn is [Span] in a zone.
func SpanIn(zone *time.Location, from, to *api.Time) string {
	const layout = "2006-01-02 15:04 MST"
	var out []string
	if from != nil {
		out = append(out, "from "+time.Time(*from).In(zone).Format(layout)+" on")
	}
	if to != nil {
		out = append(out, "before "+time.Time(*to).In(zone).Format(layout))
	}
	return strings.Join(out, ", ")
}
