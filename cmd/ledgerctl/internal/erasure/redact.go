package erasure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/audit"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Redacting is what redact was asked for.
type Redacting struct {
	TextFrom   string // file with the text; -: the input
	Ground     string // a code for the record
	Everywhere bool   // in all sessions, and in what agents saved
	DryRun     bool
	Yes        bool     // nobody is asked
	Parts      []int    // of the turn
	Spans      []string // N:FROM-TO, and @DIGEST
	Wait       time.Duration
}

// Redact takes a text, a part or a turn out for ever; a marker stands in its place.
func Redact(ctx context.Context, e *cli.Env, args []string, o Redacting) error {
	o.Everywhere = o.Everywhere || o.DryRun && o.TextFrom != "" && len(args) == 0
	req, err := o.request(e.In)
	if err != nil {
		return err
	}
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	list, err := toRedact(ctx, e, c, args, o)
	if err != nil {
		return err
	}
	if !o.DryRun && !o.Yes {
		what := "what is redacted will be unreadable for ever; ledgerctl redact --dry-run says what that is"
		if err := e.Confirm(ctx, what); err != nil {
			return err
		}
	}
	return redact(ctx, e, c, list, req, o)
}

// Secrets prints where credentials of known shapes are in sessions; no name: in all. With out they are redacted.
func Secrets(ctx context.Context, e *cli.Env, names []string, out bool, o Redacting) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	ids, err := e.SessionIDs(ctx, names)
	if err != nil {
		return err
	}
	found, err := audit.FindSecrets(ctx, e.Terminal, c, ids)
	if err != nil || !out || len(found) == 0 {
		return err
	}
	if !o.DryRun && !o.Yes {
		if err := e.Confirm(ctx, "they will be unreadable for ever, and [redacted] stands in their places"); err != nil {
			return err
		}
	}
	list := make([]target, len(found))
	for i, x := range found {
		list[i] = target{session: x.Session, text: x.Text}
	}
	return redact(ctx, e, c, list, api.RedactTurn{Ground: o.Ground, DryRun: o.DryRun}, o)
}

// maxRedacted bounds the file with the text, in bytes; [mark.Check] bounds the text.
const maxRedacted = 1 << 20

// request is what the flags ask of each session. The text never comes from the command line: a shell keeps that, and
// the machine shows it to others.
func (o Redacting) request(in io.Reader) (req api.RedactTurn, err error) {
	req = api.RedactTurn{Parts: o.Parts, Ground: o.Ground, DryRun: o.DryRun}
	for _, s := range o.Spans {
		part, rest, _ := strings.Cut(s, ":")
		from, to, _ := strings.Cut(rest, "-")
		var span api.RedactSpan
		to, span.Digest, _ = strings.Cut(to, "@")
		var errs [3]error
		span.Part, errs[0] = strconv.Atoi(part)
		span.From, errs[1] = strconv.Atoi(from)
		span.To, errs[2] = strconv.Atoi(to)
		if errs != [3]error{} {
			return req, fault.Usage(fmt.Errorf("--span %.40q is not PART:FROM-TO or PART:FROM-TO@DIGEST", s))
		}
		req.Spans = append(req.Spans, span)
	}
	if o.TextFrom == "" {
		return req, nil
	}
	if len(req.Parts)+len(req.Spans) > 0 {
		return req, fault.Usage(errors.New("--text-from goes without --part and --span"))
	}
	if o.TextFrom != "-" {
		f, err := os.Open(o.TextFrom)
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
	if err := mark.Check("--text-from", req.Text); err != nil {
		return req, fault.Usage(err)
	}
	return req, nil
}

// target is a session, or a turn of it, that something is taken out of: a text, or what the request says.
type target struct {
	session, turn turns.ID
	text          string
}

// toRedact returns what args and the flags name.
func toRedact(ctx context.Context, e *cli.Env, c *client.Client, args []string, o Redacting) (out []target, err error) {
	switch {
	case o.Everywhere && (len(args) > 0 || o.TextFrom == ""):
		return nil, fault.Usage(errors.New("--everywhere goes with --text-from, and without sessions"))
	case !o.Everywhere && len(args) == 0 && o.TextFrom != "":
		return nil, fault.WithHint(fault.Usage(errors.New("name the sessions, or --everywhere")), "--dry-run shows where the text is in all of them, and changes nothing")
	case !o.Everywhere && len(args) == 0:
		return nil, fault.Usage(errors.New("name a turn or sessions, or --everywhere"))
	case o.TextFrom == "" && len(args) > 1:
		return nil, fault.Usage(errors.New("name one turn: each takes a command of its own; or --text-from with sessions"))
	}
	if o.Everywhere {
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
			if err == nil && o.TextFrom == "" {
				return nil, fault.Usage(fmt.Errorf("%s is a session: name a turn of it (%s@3), or the text with --text-from FILE", name, name))
			}
			if err == nil {
				out = append(out, target{session: s.ID})
				continue
			}
			if o.TextFrom != "" && api.HasCode(err, api.NotFound) {
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
func redact(ctx context.Context, e *cli.Env, c *client.Client, list []target, req api.RedactTurn, o Redacting) error {
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
		if api.HasCode(err, api.Erased) && o.Everywhere { // meanwhile
			continue
		}
		if err != nil && o.Everywhere { // the others are not to wait for it
			e.Say("session %s: %v", t.session, err)
			failed = errors.Join(failed, err)
			continue
		}
		if api.HasCode(err, api.Conflict) && len(req.Spans) > 0 {
			return fault.WithHint(err, "ledgerctl show TURN --part N is the text as it is now; its bytes by sha256sum: --span N:FROM-TO@DIGEST")
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
					again, err := redacted(ctx, c, t.session, req, o.Wait)
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
			err = printRedacted(e, r)
		}
		if err != nil {
			return err
		}
	}
	what := "redacted"
	if o.DryRun {
		what = "would be redacted"
	}
	switch {
	case e.JSON: // each session is printed
	case last == nil && o.TextFrom != "":
		e.Say("no event of %s has the text of %s that was looked for; it is compared byte by byte, with its case and its spaces", prose.Plural(uint64(len(list)), "session"), prose.Plural(uint64(len(req.Text)), "byte"))
	default:
		e.Say("%s in %s %s", prose.Plural(uint64(events), "event"), prose.Plural(uint64(len(touched)), "session"), what)
	}
	for _, w := range pending {
		r, err := redacted(ctx, c, w.session, w.req, o.Wait)
		if err != nil {
			return err
		}
		if last.Stores = r.Stores; !r.Done {
			left++
		}
	}
	if last != nil && !e.JSON {
		for _, s := range last.Stores {
			if o.Everywhere && slices.Contains([]string{"inherited", "forks", "memories"}, s.Store) {
				continue // of one session; here all were looked at, and below is what memories had
			}
			fmt.Fprintf(e.Out, "  %-8s %-16s  %s\n", s.State, s.Store, s.Note)
		}
	}
	if left > 0 {
		e.Say("%s not done everywhere yet: the same command says what is left", prose.Plural(uint64(left), "session"))
	}
	for text := range texts {
		if err := keepsText(ctx, e, c, text, o); err != nil {
			return err
		}
		if err := nameFiles(ctx, e, text); err != nil {
			return err
		}
	}
	return failed
}

// redacted sends a request that was answered again until every store of the session says that it has nothing of what was redacted, for
// a while.
func redacted(ctx context.Context, c *client.Client, session turns.ID, req api.RedactTurn, wait time.Duration) (*api.Redacted, error) {
	return pollUntilDone(ctx, wait, func() (r *api.Redacted, done bool, err error) {
		r, err = c.Redact(ctx, session, req)
		return r, err != nil || r.Done, err
	})
}

func printRedacted(e *cli.Env, r *api.Redacted) error {
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
func keepsText(ctx context.Context, e *cli.Env, c *client.Client, text string, o Redacting) error {
	agents := make(map[string]bool)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return err
		}
		if agents[s.Agent] {
			continue
		}
		agents[s.Agent] = true
		dry := o.DryRun || !o.Everywhere
		r, err := c.RedactMemories(ctx, api.RedactMemories{Agent: s.Agent, Text: text, Ground: o.Ground, DryRun: dry})
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
			case !o.Everywhere:
				what = "have it too: ledgerctl redact --everywhere takes it out of them"
			case dry:
				what = "would be taken out"
			}
			fmt.Fprintf(e.Out, "%s and %s of the document of agent %s %s\n", prose.Plural(n, "memory"), prose.Plural(r.Documents, "version"), s.Agent, what)
		}
	}
	return nil
}
