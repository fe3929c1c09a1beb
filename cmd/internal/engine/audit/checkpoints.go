package audit

import (
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
)

// reportCheckpoints compares the tree that was made of the log with the checkpoint that the ledger signed last, and
// with the one that the request has. Signatures are the business of who has the key.
func (v *verifier) reportCheckpoints(req api.Verify) error {
	if v.audit.Inconsistent != nil {
		if err := v.audit.Inconsistent(); err != nil {
			v.problem("", api.Problem{Code: api.Corrupt, Message: err.Error()})
		}
	}
	if v.audit.Signed != nil {
		if c, ok := v.audit.Signed(); ok && c.Size <= uint64(v.out.Last) {
			if err := v.reportCheckpoint(c, "signed"); err != nil {
				return err
			}
		} // one that was signed since covers events that are not compared here
	}
	if req.Checkpoint == "" {
		return nil
	}
	c, err := tlog.ReadCheckpoint([]byte(req.Checkpoint))
	if err != nil {
		return api.FieldErrorf("/checkpoint", "%v", err)
	}
	return v.reportCheckpoint(c, "in the checkpoint")
}

func (v *verifier) reportCheckpoint(c tlog.Checkpoint, what string) error {
	if v.isCut {
		return nil // the problem is listed: what comes after it was not read
	}
	if c.Size > uint64(v.out.Last) {
		v.problem("", api.Problem{Code: api.Corrupt, Message: fmt.Sprintf("%v: the ledger was rolled back: %d events are %s, this log has %d", ledger.ErrCorrupt, c.Size, what, v.out.Last)})
		return nil
	}
	root, err := tlog.Root(v.rows.TreeHashes(), c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		v.problem("", api.Problem{Code: api.Corrupt, Message: fmt.Sprintf("%v: another history: of the first %d events, which are %s, one or more differ", ledger.ErrCorrupt, c.Size, what)})
	}
	v.out.Covered = max(v.out.Covered, api.Uint(c.Size))
	return nil
}
