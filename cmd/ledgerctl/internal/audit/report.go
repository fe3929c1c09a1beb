package audit

import (
	"context"
	"io"
	"slices"
	"time"

	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// verifyReport is what verify --report writes. docs/API.md describes it.
type verifyReport struct {
	Version  int             `json:"nexus_verify_report"` // 1
	OK       bool            `json:"ok"`
	Exit     int             `json:"exit"` // the exit status of the command
	Began    api.Time        `json:"began"`
	Duration uint64          `json:"duration_ms"`
	Through  uint64          `json:"through,string"` // position of the log
	Named    []turns.ID      `json:"named"`          // sessions that were verified; empty: the whole ledger
	Checked  reportChecked   `json:"checked"`        //
	Damaged  uint64          `json:"damaged"`        // problems, those that are not listed included
	Lost     uint64          `json:"lost"`           // events that are known to be lost, of the sessions listed
	Unlisted uint64          `json:"unlisted"`       // problems that are not listed
	Sessions []reportSession `json:"sessions"`       // those with problems, by id
	Others   []api.Problem   `json:"others"`         // problems of no session
}

// reportChecked counts what was checked.
type reportChecked struct {
	Events      uint64 `json:"events"`
	Sessions    uint64 `json:"sessions"`
	Turns       uint64 `json:"turns"`
	Compactions uint64 `json:"compactions"`
	Blobs       uint64 `json:"blobs"`
	Channels    uint64 `json:"channels"`
	External    uint64 `json:"external_events"`
	Duplicates  uint64 `json:"duplicate_openings"`
}

// reportSession is a session with problems. Lost and what follows is as its own error
// says: how many events are lost, which turns, and the head before the loss.
type reportSession struct {
	Session   turns.ID      `json:"session"`
	Problems  []api.Problem `json:"problems"`
	Lost      uint64        `json:"lost"`
	LostTurns []string      `json:"lost_turns"`
	LastTurn  string        `json:"last_turn,omitempty"`
}

// New makes the report of a verification. It asks for each session with a problem
// what it lost.
func New(ctx context.Context, c *client.Client, named []turns.ID, began time.Time, v *api.Verified) *verifyReport {
	r := &verifyReport{Version: 1, OK: v.OK, Began: api.Time(began), Duration: v.DurationMS, Through: uint64(v.Last), Named: append([]turns.ID{}, named...), Damaged: v.Count,
		Unlisted: v.Count - min(v.Count, uint64(len(v.Problems))), Sessions: []reportSession{}, Others: []api.Problem{},
		Checked: reportChecked{v.Events, v.Sessions, v.Turns, v.Compactions, v.Blobs, v.Channels, v.External, v.Duplicates}}
	if !v.OK {
		r.Exit = api.Exit(&api.Error{Code: api.Corrupt})
	}
	for _, p := range v.Problems {
		if p.Session.IsZero() {
			r.Others = append(r.Others, p)
			continue
		}
		at := slices.IndexFunc(r.Sessions, func(s reportSession) bool { return s.Session == p.Session })
		if at < 0 {
			at = len(r.Sessions)
			r.Sessions = append(r.Sessions, reportSession{Session: p.Session, LostTurns: []string{}})
		}
		r.Sessions[at].Problems = append(r.Sessions[at].Problems, p)
	}
	slices.SortFunc(r.Sessions, func(a, b reportSession) int { return slices.Compare(a.Session[:], b.Session[:]) })
	for i := range r.Sessions {
		s := &r.Sessions[i]
		_, err := c.Session(ctx, s.Session)
		if x := api.FromError(err); err != nil && x.Code == api.Corrupt {
			n, _ := x.Details["lost"].(float64)
			s.Lost = uint64(n)
			s.LastTurn, _ = x.Details["last_turn"].(string)
			ids, _ := x.Details["lost_turns"].([]any)
			for _, id := range ids {
				if text, ok := id.(string); ok {
					s.LostTurns = append(s.LostTurns, text)
				}
			}
		}
		r.Lost += s.Lost
	}
	return r
}

// WriteReport writes a report to a file, whole or not at all, or to stdout for "-".
func WriteReport(term *terminal.Terminal, name string, r *verifyReport) error {
	if name == "-" {
		return term.Print(r)
	}
	return export.WriteFile(name, func(w io.Writer) error { return export.WriteJSON(w, r) })
}
