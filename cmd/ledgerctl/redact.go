package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// redacting is what redact was asked for.
type redacting struct {
	textFrom, ground     string
	everywhere, dry, yes bool
	parts                []int
	spans                []string
	wait                 time.Duration
}

func redactCmd(e *env) *cobra.Command {
	var o redacting
	c := verb("redact TURN|SESSION…", "take a text, a part or a turn out for ever; a marker stands in its place", 0, -1, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		req, err := o.request(e.In)
		if err != nil {
			return err
		}
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		list, err := e.toRedact(ctx, c, args, o)
		if err != nil {
			return err
		}
		if !o.dry && !o.yes {
			what := "what is redacted will be unreadable for ever; ledgerctl redact --dry-run says what that is"
			if err := e.Confirm(ctx, what); err != nil {
				return err
			}
		}
		return e.redact(ctx, c, list, req, o)
	})
	f := c.Flags()
	f.StringVar(&o.textFrom, "text-from", "", "file with the text, - is the input; wherever it stands, it is taken out")
	f.BoolVar(&o.everywhere, "everywhere", false, "in all sessions, and in what agents saved")
	f.IntSliceVar(&o.parts, "part", nil, "a part of the turn, numbered from 1, as show numbers them")
	f.StringSliceVar(&o.spans, "span", nil, "bytes of a part: N:FROM-TO")
	f.StringVar(&o.ground, "ground", "", "a code for the record, as a number of a request; it stays")
	f.BoolVar(&o.dry, "dry-run", false, "report what would be done; change nothing")
	f.BoolVar(&o.yes, "yes", false, "do not ask on a terminal")
	f.DurationVar(&o.wait, "wait", 30*time.Second, "how long to wait for what is done in the background")
	return c
}

// maxRedacted bounds the file with the text; the daemon says how long the text may be.
const maxRedacted = 1 << 20

// request is what the flags ask of each session. The text never comes from the command line: a shell keeps that, and
// the machine shows it to others.
func (o redacting) request(in io.Reader) (req api.RedactTurn, err error) {
	req = api.RedactTurn{Parts: o.parts, Ground: o.ground, DryRun: o.dry}
	for _, s := range o.spans {
		part, rest, _ := strings.Cut(s, ":")
		from, to, _ := strings.Cut(rest, "-")
		var span api.RedactSpan
		var errs [3]error
		span.Part, errs[0] = strconv.Atoi(part)
		span.From, errs[1] = strconv.Atoi(from)
		span.To, errs[2] = strconv.Atoi(to)
		if errs != [3]error{} {
			return req, fault.Usage(fmt.Errorf("--span %.40q is not PART:FROM-TO", s))
		}
		req.Spans = append(req.Spans, span)
	}
	if o.textFrom == "" {
		return req, nil
	}
	if len(req.Parts)+len(req.Spans) > 0 {
		return req, fault.Usage(errors.New("--text-from goes without --part and --span"))
	}
	if o.textFrom != "-" {
		f, err := os.Open(o.textFrom)
		if err != nil {
			return req, fault.Usage(err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxRedacted+1))
	if err != nil {
		return req, err
	}
	if len(b) > maxRedacted {
		return req, fault.Usage(fmt.Errorf("--text-from: more than %d bytes", maxRedacted))
	}
	req.Text = strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if req.Text == "" {
		return req, fault.Usage(errors.New("--text-from: the text is empty"))
	}
	return req, nil
}

// target is a session, or a turn of it, that something is taken out of: a text, or what the request says.
type target struct {
	session, turn turns.ID
	text          string
}

// toRedact returns what args and the flags name.
func (e *env) toRedact(ctx context.Context, c *client.Client, args []string, o redacting) (out []target, err error) {
	switch {
	case o.everywhere && (len(args) > 0 || o.textFrom == ""):
		return nil, fault.Usage(errors.New("--everywhere goes with --text-from, and without sessions"))
	case !o.everywhere && len(args) == 0:
		return nil, fault.Usage(errors.New("name a turn or sessions, or --everywhere"))
	case o.textFrom == "" && len(args) > 1:
		return nil, fault.Usage(errors.New("name one turn: each takes a command of its own; or --text-from with sessions"))
	}
	if o.everywhere {
		for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
			if err != nil {
				return nil, err
			}
			if s.State != turns.Erased.String() {
				out = append(out, target{session: s.ID})
			}
		}
		return out, nil
	}
	for _, name := range args {
		if !strings.ContainsAny(name, "@/") {
			_, s, err := e.Session(ctx, name)
			if err == nil && o.textFrom == "" {
				return nil, fault.Usage(fmt.Errorf("%s is a session: name a turn of it (%s@3), or the text with --text-from FILE", name, name))
			}
			if err == nil {
				out = append(out, target{session: s.ID})
				continue
			}
			if o.textFrom != "" && fault.HasCode(err, api.NotFound) {
				return nil, err
			}
		}
		at, err := e.Turn(ctx, name)
		if err != nil {
			return nil, err
		}
		t, err := c.Turn(ctx, at.Session.ID, at.Turn) // an inherited one is another session's
		if err != nil {
			return nil, err
		}
		out = append(out, target{session: t.Session, turn: t.ID})
	}
	return out, nil
}

// redact redacts targets, and says what became of what in which store.
func (e *env) redact(ctx context.Context, c *client.Client, list []target, req api.RedactTurn, o redacting) error {
	events, left := 0, 0
	touched := make(map[turns.ID]bool)
	texts := make(map[string]bool)
	type waiting struct {
		session turns.ID
		req     api.RedactTurn
	}
	var failed error
	var pending []waiting
	var last *api.Redacted
	for _, t := range list {
		req.Turn, req.ID = t.turn, api.NewID() // so that a call again is the same call: of a turn it takes nothing more
		if t.text != "" {
			req.Text = t.text
		}
		if req.Text != "" {
			texts[req.Text] = true
		}
		r, err := c.Redact(ctx, t.session, req)
		if fault.HasCode(err, api.Erased) && o.everywhere { // meanwhile
			continue
		}
		if err != nil && o.everywhere { // the others are not to wait for it
			e.Say("session %s: %v", t.session, err)
			failed = errors.Join(failed, err)
			continue
		}
		if err != nil {
			return err
		}
		done := 0
		for _, x := range r.Events {
			if x.Count > 0 {
				done++
			}
		}
		if events += done; done > 0 {
			last = r
			if !r.Done && !r.DryRun && !touched[t.session] {
				if e.JSON {
					again, err := e.redacted(ctx, c, t.session, req, o.wait)
					if err != nil {
						return err
					}
					r.Done, r.Stores = again.Done, again.Stores
				} else {
					pending = append(pending, waiting{t.session, req})
				}
			}
			touched[t.session] = true
		}
		if e.JSON {
			err = e.Print(r)
		} else {
			err = e.printRedacted(r)
		}
		if err != nil {
			return err
		}
	}
	what := "redacted"
	if o.dry {
		what = "would be redacted"
	}
	switch {
	case e.JSON: // each session is printed
	case last == nil && o.textFrom != "":
		e.Say("nothing redacted: no event of %s has the text of %s that was looked for; it is compared byte by byte, with its case and its spaces", prose.Plural(uint64(len(list)), "session"), prose.Plural(uint64(len(req.Text)), "byte"))
	default:
		e.Say("%s in %s %s", prose.Plural(uint64(events), "event"), prose.Plural(uint64(len(touched)), "session"), what)
	}
	for _, w := range pending {
		r, err := e.redacted(ctx, c, w.session, w.req, o.wait)
		if err != nil {
			return err
		}
		if last.Stores = r.Stores; !r.Done {
			left++
		}
	}
	if last != nil && !e.JSON {
		for _, s := range last.Stores {
			fmt.Fprintf(e.Out, "  %-8s %-16s  %s\n", s.State, s.Store, s.Note)
		}
	}
	if left > 0 {
		e.Say("%s not done everywhere yet: the same command says what is left", prose.Plural(uint64(left), "session"))
	}
	for text := range texts {
		if err := e.keepsText(ctx, c, text, o); err != nil {
			return err
		}
	}
	return failed
}

// redacted sends a request that was answered again until every store of the session says that it has nothing of what was redacted, for
// a while.
func (e *env) redacted(ctx context.Context, c *client.Client, session turns.ID, req api.RedactTurn, wait time.Duration) (r *api.Redacted, err error) {
	until := time.Now().Add(wait)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		r, err = c.Redact(ctx, session, req)
		if err != nil || r.Done || time.Now().After(until) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, nil // what is left goes by itself
		case <-time.After(pause):
		}
	}
}

func (e *env) printRedacted(r *api.Redacted) error {
	for _, x := range r.Events {
		var where []string
		if len(x.Parts) > 0 {
			where = append(where, "part "+strings.Trim(strings.Join(strings.Fields(fmt.Sprint(x.Parts)), ", "), "[]"))
		}
		if x.Rest {
			where = append(where, map[bool]string{true: "meta", false: "its text"}[x.Kind == turns.KindTurn.String()])
		}
		if x.Stays > 0 {
			where = append(where, "it stays in a label, a name or an id, which redact leaves (session set --label changes a label)")
		}
		count := ""
		if x.Count > 0 {
			count = ", " + prose.Plural(uint64(x.Count), "marker")
		}
		name, what := r.Session.String(), prose.EventKind(x.Kind)
		if x.Depth > 0 { // its number is that of its own path
			name, what = name+"/"+x.Event.String(), fmt.Sprintf("%s %d", what, x.Depth)
		}
		if _, err := fmt.Fprintf(e.Out, "%s  %s: %s%s\n", name, what, strings.Join(where, "; "), count); err != nil {
			return err
		}
	}
	return nil
}

// keepsText takes a text out of what agents saved, where it is taken out everywhere; else it names what has it.
func (e *env) keepsText(ctx context.Context, c *client.Client, text string, o redacting) error {
	agents := make(map[string]bool)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		if agents[s.Agent] {
			continue
		}
		agents[s.Agent] = true
		dry := o.dry || !o.everywhere
		r, err := c.RedactMemories(ctx, api.RedactMemories{Agent: s.Agent, Text: text, Ground: o.ground, DryRun: dry})
		if err != nil {
			return err
		}
		n := uint64(len(r.Memories))
		if e.JSON && n+r.Documents > 0 {
			if err := e.Print(r); err != nil {
				return err
			}
		} else if n+r.Documents > 0 {
			what := "had it, and can't be read any more"
			switch {
			case !o.everywhere:
				what = "have it too: ledgerctl redact --everywhere takes it out of them"
			case dry:
				what = "would be taken out"
			}
			fmt.Fprintf(e.Out, "%s and %s of the document of agent %s %s\n", prose.Plural(n, "memory"), prose.Plural(r.Documents, "version"), s.Agent, what)
		}
	}
	return nil
}
