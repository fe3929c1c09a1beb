package policy

import (
	"errors"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"pgregory.net/rapid"

	"nexus/turns"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// An hour that the clocks skip begins at the next instant, and one that comes twice begins
// once, the first time.
func TestDailyResetFollowsTheClocksOfItsZone(t *testing.T) {
	for name, tc := range map[string]struct {
		zone        string
		hour        Hour
		first, want string
	}{
		"today":                         {"UTC", 0, "2026-03-02T01:00:00Z", "2026-03-02T04:00:00Z"},
		"tomorrow":                      {"UTC", 0, "2026-03-02T05:00:00Z", "2026-03-03T04:00:00Z"},
		"at the hour":                   {"UTC", 0, "2026-03-02T04:00:00Z", "2026-03-03T04:00:00Z"},
		"midnight":                      {"UTC", 1, "2026-03-02T23:59:59Z", "2026-03-03T00:00:00Z"},
		"east of Greenwich":             {"Asia/Tokyo", 0, "2026-03-02T18:00:00Z", "2026-03-02T19:00:00Z"},
		"west of Greenwich":             {"America/Los_Angeles", 0, "2026-03-02T13:00:00Z", "2026-03-03T12:00:00Z"},
		"before clocks go forward":      {"Europe/Berlin", 3, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"}, // 02:00 does not exist: 03:00 CEST
		"the day after":                 {"Europe/Berlin", 3, "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		"clocks go forward before it":   {"Europe/Berlin", 0, "2026-03-28T12:00:00Z", "2026-03-29T02:00:00Z"},
		"an hour that comes twice":      {"Europe/Berlin", 3, "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z"}, // 02:00 CEST, not CET
		"between the two":               {"Europe/Berlin", 3, "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"},
		"clocks go back before it":      {"Europe/Berlin", 0, "2026-10-24T12:00:00Z", "2026-10-25T03:00:00Z"},
		"no midnight":                   {"America/Asuncion", 1, "2023-09-30T12:00:00Z", "2023-10-01T04:00:00Z"}, // 00:00 is 01:00
		"midnight after a second 23:00": {"America/Asuncion", 1, "2024-03-23T12:00:00Z", "2024-03-24T04:00:00Z"},
		"half an hour":                  {"Australia/Lord_Howe", 3, "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"}, // 02:00 is 02:30
		"a day that does not exist":     {"Pacific/Apia", 0, "2011-12-29T20:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		due, ok := Reset{Mode: DailyReset, Hour: tc.hour}.DueAt(Activity{First: instant(t, tc.first), Latest: instant(t, tc.first)}, zone(t, tc.zone))
		if !ok || !due.Equal(instant(t, tc.want)) {
			t.Errorf("%s: %s, want %s", name, due.UTC().Format(time.RFC3339), tc.want)
		}
	}
}

// The due instant is that of a walk over every minute of the clock.
func TestDailyResetAgreesWithAWalkOverMinutes(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Asuncion", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Kiritimati", "Africa/Casablanca", "Antarctica/Troll", "Pacific/Apia", "America/Nuuk"}
	rapid.Check(t, func(r *rapid.T) {
		loc := zone(t, rapid.SampledFrom(zones).Draw(r, "zone"))
		rule := Reset{Mode: DailyReset, Hour: Hour(rapid.IntRange(1, 24).Draw(r, "hour"))}
		first := time.Unix(rapid.Int64Range(1_600_000_000, 1_800_000_000).Draw(r, "first")/60*60, 0)
		due, _ := rule.DueAt(Activity{First: first, Latest: first}, loc)
		shown := func(u time.Time) time.Time { // the wall clock, as if in UTC
			y, m, d := u.In(loc).Date()
			return time.Date(y, m, d, u.In(loc).Hour(), u.In(loc).Minute(), 0, 0, time.UTC)
		}
		fired := map[time.Time]bool{} // days whose hour has begun
		for u := first.Add(-50 * time.Hour); ; u = u.Add(time.Minute) {
			w := shown(u)
			day := w.Truncate(24 * time.Hour)
			if w.Hour() < rule.Hour.Of() {
				continue
			}
			if !fired[day] {
				fired[day] = true
				if u.After(first) {
					if !u.Equal(due) {
						r.Fatalf("due at %v, the clocks say %v", due, u)
					}
					return
				}
			}
		}
	})
}

// Clocks of daemons that differ by seconds fire no reset twice: the newest turn counts only
// where it is older than the first by over a day.
func TestClocksThatDifferFireNoResetTwice(t *testing.T) {
	r := Reset{Mode: DailyReset}
	first := time.Date(2026, 3, 2, 4, 0, 1, 0, time.UTC)
	for _, c := range []struct {
		latest time.Time
		day    int
	}{{first.Add(-2 * time.Second), 3}, {first.Add(-24 * time.Hour), 3}, {first.Add(-25 * time.Hour), 1}} {
		if due, _ := r.DueAt(Activity{First: first, Latest: c.latest}, time.UTC); !due.Equal(time.Date(2026, 3, c.day, 4, 0, 0, 0, time.UTC)) {
			t.Errorf("newest turn at %v: due at %v", c.latest, due)
		}
	}
}

func TestIdleResetCountsFromTheNewestTurn(t *testing.T) {
	a := Activity{First: time.Unix(0, 0), Latest: time.Unix(1000, 0)}
	r := Reset{Mode: IdleReset, IdleMinutes: 5}
	if due, ok := r.DueAt(a, time.UTC); !ok || !due.Equal(time.Unix(1300, 0)) {
		t.Errorf("due at %v", due)
	}
	if a.Waits = true; true {
		if due, _ := r.DueAt(a, time.UTC); !due.Equal(time.Unix(1300, 0).Add(MaxResetWait)) {
			t.Errorf("with a turn that waits: %v", due)
		}
	}
	for _, mode := range []ResetMode{"", ManualReset} {
		if due, ok := (Reset{Mode: mode, IdleMinutes: 5}).DueAt(a, time.UTC); ok || (Reset{Mode: mode}).Timed() {
			t.Errorf("mode %q is due at %v", mode, due)
		}
	}
}

func TestParseResetNamesEveryFault(t *testing.T) {
	for raw, want := range map[string]Reset{
		`{}`:               {},
		`{"mode":"daily"}`: {Mode: DailyReset},
		`{"mode":"daily","hour":0,"time_zone":"Europe/Paris"}`: {Mode: DailyReset, Hour: 1, TimeZone: "Europe/Paris"},
		`{"mode":"idle","idle_minutes":30}`:                    {Mode: IdleReset, IdleMinutes: 30},
	} {
		got, err := ParseReset("/reset", turns.Raw(raw))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
		again, err := turns.EncodeJSON(got)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseReset("/reset", again); err != nil || back != want {
			t.Errorf("%s is written as %s: %v", raw, again, err)
		}
	}
	for raw, field := range map[string]string{
		`{"mode":"hourly"}`: "/reset/mode", `{"mode":"daily","hour":24}`: "/reset/hour", `{"mode":"daily","hour":-1}`: "/reset/hour", `{"hour":"4"}`: "/reset/hour", `{"hour":4.5}`: "/reset/hour",
		`{"mode":"idle"}`: "/reset/idle_minutes", `{"mode":"idle","idle_minutes":600000}`: "/reset/idle_minutes", `{"time_zone":"Local"}`: "/reset/time_zone", `{"at":4}`: "/reset/at", `[]`: "/reset",
	} {
		_, err := ParseReset("/reset", turns.Raw(raw))
		var fe *turns.FieldError
		if !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v, want a fault of %s", raw, err, field)
		}
	}
}
