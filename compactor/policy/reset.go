package policy

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Reset is when a session ends by itself and goes on in a fresh successor.
//
// Source: GSV, "Session Reset and Archival".
type Reset struct {
	// Mode is manual (also ""), daily or idle.
	Mode ResetMode `json:"mode,omitzero"`
	// Hour is when a daily reset is due, by the clock of the zone: 0 to 23. Default 4.
	Hour Hour `json:"hour,omitzero"`
	// TimeZone is the zone's IANA name, such as Europe/Paris. Default UTC.
	TimeZone string `json:"time_zone,omitzero"`
	// IdleMinutes is after how long without a turn an idle reset is due. Range [1, 525600]
	// if the mode is idle. Other modes may have it, at most as much, and ignore it.
	IdleMinutes uint64 `json:"idle_minutes,omitzero"`
}

// ResetMode says what a reset waits for.
type ResetMode string

// The modes of a reset.
const (
	ManualReset ResetMode = "manual" // somebody asks for it
	DailyReset  ResetMode = "daily"  // the hour of the day
	IdleReset   ResetMode = "idle"   // no turn for some minutes
)

// DefaultHour is the hour of a daily reset that names none.
const DefaultHour = 4

// Hour is an hour of the day, plus one; 0: none is named. In JSON it is the hour.
type Hour uint8

// Of returns the hour, from 0 to 23.
func (h Hour) Of() int {
	if h == 0 {
		return DefaultHour
	}
	return int(h) - 1
}

// MarshalJSONTo writes the hour.
func (h Hour) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.Int(int64(h.Of())))
}

// UnmarshalJSONFrom reads an hour from 0 to 23.
func (h *Hour) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(v), 10, 8)
	if err != nil || n > 23 {
		return &turns.FieldError{Reason: "not an hour from 0 to 23", Kind: turns.ErrMalformed}
	}
	*h = Hour(n) + 1
	return nil
}

// Timed reports whether time can make a reset due.
func (r Reset) Timed() bool { return r.Mode == DailyReset || r.Mode == IdleReset }

// Zone returns the name of the zone.
func (r Reset) Zone() string {
	if r.TimeZone == "" {
		return "UTC"
	}
	return r.TimeZone
}

// maxIdleMinutes is a year.
const maxIdleMinutes = 525_600

func (r Reset) check(check checkFunc) {
	switch r.Mode {
	case "", ManualReset, DailyReset, IdleReset:
	default:
		check(false, "reset/mode", "%.60q is not one of manual, daily, idle", r.Mode)
	}
	check(r.Hour <= 24, "reset/hour", "%d is outside [0, 23]", r.Hour.Of())
	check(len(r.TimeZone) <= 64 && r.TimeZone != "Local", "reset/time_zone", "%.80q is not the IANA name of a zone", r.TimeZone)
	check(r.IdleMinutes <= maxIdleMinutes, "reset/idle_minutes", "%d is outside [0, %d]", r.IdleMinutes, maxIdleMinutes)
	check(r.Mode != IdleReset || r.IdleMinutes > 0, "reset/idle_minutes", "0 minutes, though the mode is idle")
}

// ParseReset reads the rule of a session, a JSON object. Errors: a [turns.FieldError] below
// field for each fault.
func ParseReset(field string, raw turns.Raw) (r Reset, err error) {
	if err := turns.DecodeJSON(raw, &r); err != nil {
		if fe := (*turns.FieldError)(nil); errors.As(err, &fe) {
			return Reset{}, &turns.FieldError{Field: field + fe.Field, Reason: fe.Reason, Kind: fe.Kind}
		}
		return Reset{}, &turns.FieldError{Field: field, Reason: err.Error(), Kind: turns.ErrMalformed}
	}
	var faults []error
	r.check(func(ok bool, at, format string, args ...any) {
		if !ok {
			faults = append(faults, &turns.FieldError{Field: field + at[len("reset"):], Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed})
		}
	})
	return r, errors.Join(faults...)
}

// Activity is what a session did, as far as a reset depends on it.
type Activity struct {
	First, Latest time.Time // when its first and its newest turn were stored
	Waits         bool      // the newest turn waits for its response or for results of its calls
}

// MaxResetWait is how long a due reset waits for a turn that is not complete. A tool that
// runs over the hour so ends in the session that called it.
const MaxResetWait = time.Hour

// maxAhead is how far behind the first turn the newest may be before the first is taken for
// one of a clock that was ahead, maybe by years. The clocks of daemons differ by less, and
// less delays a reset by a day at most.
const maxAhead = 24 * time.Hour

// DueAt returns when the reset of a session is due, in the zone loc: a daily one at the
// first instant after the first turn at which the hour begins, an idle one so many minutes
// after the newest turn; both later if a turn waits. ok is false for a rule that is manual.
// The session must have a turn.
//
// An hour that does not exist on a day, as clocks go forward, begins at the next instant
// that does. One that comes twice begins once, the first time.
func (r Reset) DueAt(a Activity, loc *time.Location) (due time.Time, ok bool) {
	switch r.Mode {
	case DailyReset:
		first := a.First
		if !a.Latest.IsZero() && a.Latest.Before(first.Add(-maxAhead)) {
			first = a.Latest
		}
		due = nextHour(first, r.Hour.Of(), loc)
	case IdleReset:
		due = a.Latest.Add(time.Duration(r.IdleMinutes) * time.Minute)
	default:
		return due, false
	}
	if a.Waits {
		due = due.Add(MaxResetWait)
	}
	return due, true
}

// nextHour returns the first instant after t at which the clocks of loc show hour:00 of a
// day or, if they skip that, later.
func nextHour(t time.Time, hour int, loc *time.Location) time.Time {
	y, m, d := t.In(loc).Date()
	for day := -1; ; day++ {
		if at := reaches(time.Date(y, m, d+day, hour, 0, 0, 0, time.UTC), loc); at.After(t) {
			return at
		}
	}
}

// StartOfDay returns the first instant of a day in the zone loc.
func StartOfDay(year int, month time.Month, day int, loc *time.Location) time.Time {
	return reaches(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), loc)
}

// reaches returns the first instant at which the clocks of loc show a date and time or a
// later one. wall has them as if the zone were UTC.
func reaches(wall time.Time, loc *time.Location) time.Time {
	from := wall.Add(-26 * time.Hour) // no zone is so far ahead
	for {
		at := from.In(loc)
		_, offset := at.Zone()
		_, end := at.ZoneBounds()
		u := wall.Add(-time.Duration(offset) * time.Second)
		if u.Before(from) {
			u = from
		}
		if end.IsZero() || u.Before(end) {
			return u
		}
		from = end
	}
}
