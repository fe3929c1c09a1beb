package audit

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// pageEvents is how many events a page checks.
const pageEvents = 2000

// VerifySessions verifies sessions, page after page. It shows how far it is. If it ends early it says
// through which event it came.
func VerifySessions(ctx context.Context, term *terminal.Terminal, c *client.Client, ids []turns.ID) (v *api.Verified, err error) {
	bar := term.Progress(1, "verifying")
	for p, perr := range c.VerifyPages(ctx, pageEvents, ids...) {
		if err = perr; err != nil {
			break
		}
		if v = p; v.Next == "" {
			break
		}
		bar.ChangeMax64(int64(max(v.Total, v.Events+1))) // it ends with the rows, which follow the events
		_ = bar.Set64(int64(v.Events))
	}
	_ = bar.Close()
	if err != nil && v != nil {
		found := "nothing is wrong so far"
		if v.Count > 0 {
			found = prose.Plural(v.Count, "problem") + " so far"
		}
		term.Say("verified %s of %s, through position %d, event %s of session %s: %s", prose.Grouped(v.Events), prose.Plural(max(v.Total, v.Events), "event"), v.Through.Seq, v.Through.Event, v.Through.Session, found)
	}
	return v, err
}
