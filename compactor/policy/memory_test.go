package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/turns"
)

// Contexts show memories and the runtime block where a policy asks for them: gsv, autobyteus
// and wolffish.
func TestMemoryIsOnInTheDesignsThatHaveOne(t *testing.T) {
	var on []string
	for _, p := range builtins() {
		if p.Memory.On() || p.Runtime != NoRuntime {
			on = append(on, p.Name+" "+string(p.Runtime))
		}
	}
	if want := []string{"gsv ", "autobyteus ", "wolffish system"}; !slices.Equal(on, want) {
		t.Errorf("on in %q, want %q", on, want)
	}
	if m := builtin("gsv").Memory; m.DailyDays != 2 || !m.Document || m.Episodes != 0 {
		t.Errorf("gsv: %+v", m)
	}
	if m := builtin("wolffish").Memory; m.Episodes == 0 || m.HalfLifeDays == 0 || m.DailyDays != 0 || m.Document {
		t.Errorf("wolffish: %+v", m)
	}
}

func TestMemorySettings(t *testing.T) {
	p := builtin("balanced")
	for set, fields := range map[string]string{
		`{"memory":{"daily_days":2}}`:                          "/policy/set/memory/max_tokens",
		`{"memory":{"document":true}}`:                         "/policy/set/memory/max_tokens",
		`{"memory":{"daily_days":32,"max_tokens":1}}`:          "/policy/set/memory/daily_days",
		`{"memory":{"episodes":101,"max_tokens":1}}`:           "/policy/set/memory/episodes",
		`{"memory":{"episode_tokens":3001}}`:                   "/policy/set/memory/episode_tokens",
		`{"memory":{"episode_tokens":3000}}`:                   "",
		`{"memory":{"half_life_days":100001}}`:                 "/policy/set/memory/half_life_days",
		`{"memory":{"episode":1}}`:                             "/policy/set/memory/episode",
		`{"runtime":"tool"}`:                                   "/policy/set/runtime",
		`{"memory":{"episodes":1,"max_tokens":1}}`:             "",
		`{"runtime":"off"}`:                                    "",
		`{"runtime":"message","memory":{"half_life_days":30}}`: "",
	} {
		_, err := p.With(turns.Raw(set))
		if got := strings.Join(faultFields(err), " "); got != fields {
			t.Errorf("%s: faults at %q, want %q (%v)", set, got, fields, err)
		}
	}
}

// A day begins at its first instant: where clocks skip midnight, at the one after.
func TestStartOfDay(t *testing.T) {
	for _, c := range []struct{ zone, day, want string }{
		{"UTC", "2026-11-22", "2026-11-22T00:00:00Z"},
		{"Asia/Tokyo", "2026-11-22", "2026-11-21T15:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"}, // 00:00 does not exist there
		{"Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"},
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"}, // the day does not exist
	} {
		loc, err := time.LoadLocation(c.zone)
		must(t, err)
		d, err := time.Parse(time.DateOnly, c.day)
		must(t, err)
		if got := StartOfDay(d.Year(), d.Month(), d.Day(), loc).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s begins at %s, want %s", c.day, c.zone, got, c.want)
		}
	}
}
