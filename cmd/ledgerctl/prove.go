package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nexus/cmd/internal/wholefile"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/tlog"
	"nexus/turns"
)

func proveCmd(e *env) *cobra.Command {
	var disclose, out string
	var key, checkpoint bool
	cmd := verb("prove [TURN] [--disclose none|turn|session|part:N|only:N] -o FILE", "a proof that a turn is in the ledger, which anyone can check", 0, 1, func(cmd *cobra.Command, args []string) error {
		c, err := e.Client(api.Operator)
		if err != nil {
			return err
		}
		switch {
		case key || checkpoint:
			if len(args) > 0 || key && checkpoint {
				return fault.Usage(errors.New("--key and --checkpoint go alone, without a turn"))
			}
			if key {
				k, err := c.CheckpointKey(cmd.Context())
				if err != nil {
					return err
				}
				return e.Result(k, "%s", k.Key)
			}
			if _, err := e.checkKnown(cmd.Context(), c); err != nil {
				return err
			}
			p, err := c.Checkpoint(cmd.Context())
			if err != nil {
				return err
			}
			if out != "" {
				return wholefile.Write(out, 0o644, wholefile.Bytes([]byte(p.Note)))
			}
			return e.Result(p, "%s", p.Note) // an empty line behind it, so that more notes can be appended to a file
		case len(args) == 0:
			return fault.Usage(errors.New("name a turn, or --key, or --checkpoint"))
		case out == "" || out == "-":
			return fault.Usage(errors.New("name the file of the proof with -o: it is two files, FILE and FILE.event"))
		}
		req, err := disclosure(disclose)
		if err != nil {
			return fault.Usage(err)
		}
		at, err := e.Turn(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		known, err := e.checkKnown(cmd.Context(), c)
		if err != nil {
			return err
		}
		req.Turn = at.Turn
		p, err := c.Proof(cmd.Context(), at.Session.ID, req)
		if err != nil {
			return err
		}
		event, err := checkProof(p, req.Turn, known) // the daemon is not believed
		if err != nil {
			return err
		}
		if err := wholefile.Write(out, 0o644, wholefile.Bytes([]byte(p.Proof))); err != nil {
			return err
		}
		if err := wholefile.Write(out+".event", 0o600, wholefile.Bytes([]byte(p.Event))); err != nil {
			return err
		}
		if err := e.Result(p, "%s, %s.event: event %d of %d, under the key %s", out, out, p.Index+1, p.Size, p.Key); err != nil {
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
		e.Say("check it: python3 docs/examples/python/verify_proof.py KEY %s, with the key from elsewhere (ledgerctl prove --key)", out)
		return nil
	})
	cmd.Flags().StringVar(&disclose, "disclose", "none", "what of the turn is shown: none, turn, part:N, only:N, or session (gives its key away)")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file of the proof; what is shown is in FILE.event")
	cmd.Flags().BoolVar(&key, "key", false, "print the public key of the checkpoints")
	cmd.Flags().BoolVar(&checkpoint, "checkpoint", false, "sign a checkpoint now, and print it")
	return cmd
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
func (e *env) checkKnown(ctx context.Context, c *client.Client) (*api.Consistency, error) {
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
