package writer

import (
	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// Announce tells of what is at a position; "": of what is known here now.
func (wr *Writer) Announce(c reader.Caller, session turns.ID, what string, turn turns.ID, at string, detail map[string]any) {
	if wr.Notify == nil {
		return
	}
	if at == "" {
		at = page.FormatPosition(wr.reader.Projections.Applied().Seq)
	}
	n := api.Notification{Kind: what, Session: session, Turn: turn, Position: at}
	if detail != nil {
		if b, err := turns.EncodeJSON(detail); err == nil {
			n.Detail = b
		}
	}
	wr.Notify(c.Tenant, c.Agent, n)
}
