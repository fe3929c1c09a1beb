package acts

import (
	"fmt"
	"strings"

	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Pages is what the room serves, by pattern.
func Pages() visit.Pages {
	return visit.Pages{
		"GET /ui/s/{session}/export":           export,
		"GET /ui/s/{session}/compact":          compactPreview,
		"GET /ui/s/{session}/takeout":          takeOut,
		"GET /ui/s/{session}/t/{turn}/takeout": takeOut,
		"GET /ui/s/{session}/t/{turn}/prove":   prove,
		"GET /ui/s/{session}/t/{turn}/proof":   proof,
		"POST /ui/do/prove":                    doProve,
		"POST /ui/do/takeout":                  doTakeOut,
		"GET /ui/takeout":                      takeOutEverywhere,
		"POST /ui/do/takeout-everywhere":       doTakeOutEverywhere,
		"POST /ui/do/fork":                     changes((*act).fork),
		"POST /ui/do/rewind":                   changes((*act).rewind),
		"POST /ui/do/compact":                  changes((*act).compact),
		"POST /ui/do/label":                    changes((*act).label),
		"POST /ui/do/close":                    changes((*act).close),
		"POST /ui/do/describe":                 changes((*act).describe),
		"POST /ui/do/hide":                     changes((*act).hide),
		"POST /ui/do/note":                     changes((*act).note),
	}
}

// act is a change of a session that a form asks for.
type act struct {
	*visit.Visit
	c  *client.Client // may change the session
	s  *api.Session
	id turns.ID // of the request: a form that is sent twice is one change
}

// changes returns what serves the form of a change. do returns where the browser goes then.
func changes(do func(*act) (to string, err error)) func(*visit.Visit) error {
	return func(v *visit.Visit) error {
		a, err := formOf(v)
		if err != nil {
			return err
		}
		to, err := do(a)
		if err != nil {
			return err
		}
		return v.SeeOther(to)
	}
}

// formOf reads what all forms of changes have.
func formOf(v *visit.Visit) (*act, error) {
	if err := v.Parse(); err != nil {
		return nil, err
	}
	session, err := turns.ParseID(v.R.PostForm.Get("session"))
	if err != nil {
		return nil, api.Errorf(api.Malformed, nil, "the form names no session")
	}
	id, err := turns.ParseID(v.R.PostForm.Get("id"))
	if err != nil {
		return nil, api.Errorf(api.Malformed, nil, "the form has no id")
	}
	s, err := v.C.Session(v.R.Context(), session) // as who visits: one of another agent is not found
	if err != nil {
		return nil, err
	}
	c, err := v.Writer(s.Agent)
	return &act{v, c, s, id}, err
}

// here is the page of the session.
func (a *act) here() string { return "/ui/s/" + a.s.ID.String() }

// turn reads the turn that a form names.
func (a *act) turn() (turns.ID, error) {
	id, err := turns.ParseID(a.R.PostForm.Get("turn"))
	if err != nil {
		return id, api.Errorf(api.Malformed, nil, "the form names no turn")
	}
	return id, nil
}

func (a *act) fork() (string, error) {
	turn, err := a.turn()
	if err != nil {
		return "", err
	}
	r := api.CreateFork{ID: a.id, Turn: turn, Mode: a.R.PostForm.Get("mode")}
	if label := strings.TrimSpace(a.R.PostForm.Get("label")); label != "" {
		r.Label = &label
	}
	made, err := a.c.Fork(a.R.Context(), a.s.ID, r)
	if err != nil {
		return "", err
	}
	return "/ui/s/" + made.ID.String() + "?from=last&forked=1#made", nil
}

func (a *act) rewind() (string, error) {
	turn, err := a.turn()
	if err != nil {
		return "", err
	}
	r := api.MoveSession{ID: a.id, To: &turn}
	if head, err := turns.ParseID(a.R.PostForm.Get("head")); err == nil {
		r.IfHead = head
	}
	_, err = a.c.Move(a.R.Context(), a.s.ID, r)
	return a.here() + "?from=last", err
}

func (a *act) label() (string, error) {
	label := strings.TrimSpace(a.R.PostForm.Get("label"))
	_, err := a.c.Set(a.R.Context(), a.s.ID, api.SetSession{ID: a.id, SessionSettings: api.SessionSettings{Label: &label}})
	return a.here(), err
}

func (a *act) close() (string, error) {
	_, err := a.c.Close(a.R.Context(), a.s.ID, api.CloseSession{ID: a.id, Cause: "closed in the explorer"})
	return a.here(), err
}

type compactPage struct {
	views.Head
	Plan    *api.Plan
	Nothing string
	Focus   string
	Budget  uint64
	Through uint64
	Before  string
	After   string
}

// compactPreview shows what a compaction would do, and makes none.
func compactPreview(v *visit.Visit) error {
	s, _, err := v.Place()
	if err != nil {
		return err
	}
	c, err := v.Writer(s.Agent)
	if err != nil {
		return err
	}
	p := &compactPage{Head: views.HeadOf(v, s), Focus: pages.Line(v.R.URL.Query().Get("focus"), 400)}
	made, err := c.Compact(v.R.Context(), s.ID, api.RunCompaction{DryRun: true, Focus: p.Focus})
	switch e := (*api.Error)(nil); {
	case err == nil && made.Plan != nil:
		p.Plan = made.Plan
		most := max(p.Plan.TokensBefore, 1)
		p.Before, p.After = "100", fmt.Sprint(max(1, 100*min(p.Plan.TokensKept+p.Plan.SummaryMax, most)/most))
		if t := p.Plan.Through; t != nil {
			if x, err := v.C.Turn(v.R.Context(), s.ID, *t); err == nil {
				p.Through = x.Depth
			}
		}
	case err != nil:
		if e = api.FromError(err); e.Code != api.Nothing && e.Code != api.Unprocessable {
			return err
		}
		p.Nothing = e.Message
	}
	v.Render("compact", "Compact", "sessions", p)
	return nil
}

func (a *act) compact() (string, error) {
	made, err := a.c.Compact(a.R.Context(), a.s.ID, api.RunCompaction{ID: a.id, Focus: strings.TrimSpace(a.R.PostForm.Get("focus")), FromOriginals: a.R.PostForm.Get("from_originals") != "", WaitMS: 15_000})
	if err != nil {
		return "", err
	}
	if made.Compaction == nil {
		return a.here() + "?from=last", nil
	}
	return a.here() + "/c/" + made.Compaction.ID.String(), nil
}
