package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"nexus/cmd/internal/wholefile"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// Proving is what prove was asked for.
type Proving struct {
	Disclose        string // what of the turn is shown: none, turn, part:N, only:N or session
	Out             string // file of the proof
	Key, Checkpoint bool   // no proof: print the key, or a checkpoint that is signed now
}

// Prove writes a proof that a turn is in the ledger.
func Prove(ctx context.Context, e *cli.Env, args []string, o Proving) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	switch {
	case o.Key || o.Checkpoint:
		if len(args) > 0 || o.Key && o.Checkpoint {
			return fault.Usage(errors.New("--key and --checkpoint go alone, without a turn"))
		}
		if o.Key {
			k, err := c.CheckpointKey(ctx)
			if err != nil {
				return err
			}
			return e.Result(k, "%s", k.Key)
		}
		if _, err := checkKnown(ctx, e, c); err != nil {
			return err
		}
		p, err := c.Checkpoint(ctx)
		if err != nil {
			return err
		}
		if o.Out != "" {
			return wholefile.Write(o.Out, 0o644, wholefile.Bytes([]byte(p.Note)))
		}
		return e.Result(p, "%s", p.Note) // an empty line behind it, so that more notes can be appended to a file
	case len(args) == 0:
		return fault.Usage(errors.New("name a turn, or --key, or --checkpoint"))
	case o.Out == "" || o.Out == "-":
		return fault.Usage(errors.New("name the file of the proof with -o: it is two files, FILE and FILE.event"))
	}
	req, err := disclosure(o.Disclose)
	if err != nil {
		return fault.Usage(err)
	}
	at, err := e.Turn(ctx, args[0])
	if err != nil {
		return err
	}
	known, err := checkKnown(ctx, e, c)
	if err != nil {
		return err
	}
	req.Turn = at.Turn
	p, err := c.Proof(ctx, at.Session.ID, req)
	if err != nil {
		return err
	}
	event, err := checkProof(p, req.Turn, known) // the daemon is not believed
	if err != nil {
		return err
	}
	if err := wholefile.Write(o.Out, 0o644, wholefile.Bytes([]byte(p.Proof))); err != nil {
		return err
	}
	if err := wholefile.Write(o.Out+".event", 0o600, wholefile.Bytes([]byte(p.Event))); err != nil {
		return err
	}
	if err := e.Result(p, "%s, %s.event: event %d of %d, under the key %s", o.Out, o.Out, p.Index+1, p.Size, p.Key); err != nil {
		return err
	}
	switch {
	case req.Disclose == api.DiscloseNone:
		e.Say("it shows that the turn is there, and nothing of what was said; --disclose turn shows that too")
	case len(event.Leaves) == 0:
		e.Say("it shows nothing of what was said: all of it was redacted")
	case !event.Shows(0):
		e.Say("it shows neither who said it nor where in the turn it stands")
	}
	e.Say("check it: python3 docs/examples/python/verify_proof.py KEY %s, with the key from elsewhere (ledgerctl prove --key)", o.Out)
	return nil
}

// disclosure reads --disclose: none, turn, session, part:N[,N…] (each with what holds the parts), only:N[,N…].
func disclosure(s string) (api.GetProof, error) {
	what, list, listed := strings.Cut(s, ":")
	switch what {
	case api.DiscloseNone, api.DiscloseTurn, api.DiscloseSession:
		if !listed {
			return api.GetProof{Disclose: what}, nil
		}
	case api.DisclosePart, "only":
		req := api.GetProof{Disclose: api.DisclosePart}
		for n := range strings.SplitSeq(list, ",") {
			part, err := strconv.Atoi(n)
			if err != nil || part < 1 || strconv.Itoa(part) != n {
				return api.GetProof{}, fmt.Errorf("--disclose %.40q: %s:N, where N numbers the parts from 1; several as %[2]s:1,3", s, what)
			}
			req.Parts = append(req.Parts, part)
		}
		if what == api.DisclosePart {
			req.Parts = append(req.Parts, 0)
		}
		return req, nil
	}
	return api.GetProof{}, fmt.Errorf("--disclose %.40q is not none, turn, part:N, only:N or session", s)
}

// checkProof checks the two files as who gets them does, and that they are of the turn, under the key of the log that
// was compared with what is known of it. It returns the file of the event.
func checkProof(p *api.TurnProof, turn turns.ID, known *api.Consistency) (*tlog.Event, error) {
	proof, err := tlog.ParseProof([]byte(p.Proof))
	if err != nil {
		return nil, err
	}
	event, err := tlog.ParseEvent([]byte(p.Event))
	if err != nil {
		return nil, err
	}
	if _, err := proof.Verify(event.Entry(), p.Key); err != nil {
		return nil, err
	}
	ev, err := event.Verify()
	if err != nil {
		return nil, err
	}
	if ev.ID != turn || p.Key != known.Key {
		return nil, fmt.Errorf("%w: the proof is of another turn, or under another key than that of the log", turns.ErrCorrupt)
	}
	return event, nil
}

// checkKnown compares the ledger with the newest checkpoint that this user has of it, and keeps the newest.
func checkKnown(ctx context.Context, e *cli.Env, c *client.Client) (*api.Consistency, error) {
	dir, err := client.KnownDir()
	if err != nil {
		return nil, err
	}
	known, rekeyed, err := c.CheckKnown(ctx, dir)
	if rekeyed && err == nil {
		e.Tell("the ledger signs with another key than before: it was restored or repaired, and has all that it had")
	}
	return known, err
}

// readCheckpoint returns the newest checkpoint of a file, signed by a key, and why others there were skipped, nil if none was.
func readCheckpoint(name, key string) (note []byte, newest tlog.Checkpoint, skipped, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, newest, nil, err
	}
	for _, n := range tlog.Notes(b) {
		c, err := tlog.OpenCheckpoint(n, key)
		if err != nil { // of another key, as after a repair, or torn
			skipped = cmp.Or(skipped, err)
			continue
		}
		if note == nil || c.Size > newest.Size {
			note, newest = n, c
		}
	}
	switch {
	case note != nil:
		return note, newest, skipped, nil
	case skipped != nil:
		return nil, newest, nil, fmt.Errorf("%s: %w", name, skipped)
	}
	return nil, newest, nil, fmt.Errorf("%w: %s has no checkpoint", turns.ErrMalformed, name)
}
