package audit

import (
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// checkMemory opens the body of an event of an agent's chain, and compares it with
// the header.
func (v *verifier) checkMemory(tenant, agent string, ev *turns.Event) error {
	var body any = new(turns.MemoryChangedBody)
	switch ev.Kind {
	case turns.KindMemory:
		body = new(turns.MemoryBody)
	case turns.KindDocument:
		body = new(turns.DocumentBody)
	}
	if err := content.OpenCommitted(v.content.OpeningKeyring(), ev, body); err != nil {
		return err
	}
	k, err := v.content.AgentKey(tenant, agent)
	if err != nil {
		return err
	}
	var got, want turns.Hash
	switch b := body.(type) {
	case *turns.MemoryBody:
		m := ev.Memory
		want, got = m.Text, seal.MemoryText(k, m.Kind, m.Private, m.Branch.Session, b.Text)
	case *turns.DocumentBody:
		want, got = ev.Document.Text, seal.DocumentText(k, b.Text)
	}
	if got != want {
		return fmt.Errorf("%w: its text has the digest %v, its header says %v", ledger.ErrCorrupt, got, want)
	}
	return nil
}
