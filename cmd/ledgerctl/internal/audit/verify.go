package audit

import (
	"context"
	"errors"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
)

// Verifying is what verify was asked for.
type Verifying struct {
	Report          string // file of a report; -: the output
	Checkpoint, Key string // a file with checkpoints, and the key that signed: compare the ledger with the newest
}

// Verify checks every event, hash, parent and blob of sessions, or of all, and prints what it found.
func Verify(ctx context.Context, e *cli.Env, args []string, o Verifying) error {
	c, err := e.Client(api.Operator)
	if err != nil {
		return err
	}
	ids, err := e.SessionIDs(ctx, args)
	if err != nil {
		return err
	}
	var note []byte
	if o.Checkpoint != "" || o.Key != "" {
		switch {
		case o.Key == "":
			return fault.Usage(errors.New("--checkpoint needs --key KEY too, the public key that signed it, as you kept it elsewhere: ledgerctl prove --key shows the ledger's, which whoever changed the folder may have changed too"))
		case o.Checkpoint == "":
			return fault.Usage(errors.New("--key needs --checkpoint FILE too, a checkpoint that was kept elsewhere: a file of [checkpoint] out, or of ledgerctl prove --checkpoint"))
		case len(args) > 0:
			return fault.Usage(errors.New("--checkpoint compares the whole ledger: name no sessions"))
		}
		var skipped error
		if note, _, skipped, err = readCheckpoint(o.Checkpoint, o.Key); err != nil {
			return err
		}
		if skipped != nil {
			e.Tell("%s has a note that is torn, or of another key, and was skipped: %v", o.Checkpoint, skipped)
		}
	}
	began := time.Now()
	var v *api.Verified
	switch {
	case note != nil:
		v, err = c.VerifyCheckpoint(ctx, string(note))
	case len(ids) > 0:
		v, err = VerifySessions(ctx, e.Terminal, c, ids)
	default:
		v, err = c.Verify(ctx)
	}
	if err != nil {
		return err
	}
	if o.Report != "" {
		if err := WriteReport(e.Terminal, o.Report, New(ctx, c, ids, began, v)); err != nil {
			return err
		}
	}
	if o.Report == "-" {
		err = nil // it is what stdout has
	} else if e.JSON {
		err = e.Print(v)
	} else {
		Print(e.Terminal, v)
	}
	if err == nil && !v.OK {
		err = api.Errorf(api.Corrupt, nil, "%s", prose.Plural(max(v.Count, uint64(len(v.Problems))), "problem"))
	}
	return err
}
