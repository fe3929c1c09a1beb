package audit_test

import (
	"bytes"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// The rows of memories, of evidence and of what was withdrawn with another memory are
// those that follow from the log; whatever of one is changed is found, and named.
func TestVerifyNamesAMemoryWhoseRowDiffers(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	save := func(r api.SaveMemory) *api.Memory {
		t.Helper()
		r.Kind = "semantic"
		return enginetest.Must(e.Memories.Save(t.Context(), enginetest.Alice, r, []byte(r.Text)))(t)
	}
	first := save(api.SaveMemory{Text: "The owner is Ada."})
	save(api.SaveMemory{Text: "The owner is Ada."}) // evidence
	derived := save(api.SaveMemory{Text: "Ada decides.", From: []turns.ID{first.ID}})
	save(api.SaveMemory{Text: "The owner is Bob.", Supersedes: first.ID})
	enginetest.Must(e.Memories.Withdraw(t.Context(), enginetest.Alice, api.WithdrawMemory{Memory: first.ID}, []byte("{}")))(t)
	save(api.SaveMemory{Text: "The owner is Ada."}) // new, as the agent saves what was withdrawn
	if v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t); !v.OK {
		t.Fatalf("%+v", v.Problems)
	}
	for name, change := range map[string]func(m *ledger.Memory){
		"trust":         func(m *ledger.Memory) { m.Trust++ },
		"digest":        func(m *ledger.Memory) { m.Text[0] ^= 1 },
		"place":         func(m *ledger.Memory) { m.Seq++ },
		"state":         func(m *ledger.Memory) { m.Statuses[len(m.Statuses)-1].State = turns.Accepted },
		"seen by":       func(m *ledger.Memory) { m.Statuses[0].Private = !m.Statuses[0].Private },
		"a status":      func(m *ledger.Memory) { m.Statuses = m.Statuses[:1] },
		"withdrawn by":  func(m *ledger.Memory) { m.Statuses[len(m.Statuses)-1].With = turns.ID{1} },
		"evidence of":   func(m *ledger.Memory) { m.Same = first.ID },
		"what it cites": func(m *ledger.Memory) { m.From = nil },
	} {
		t.Run(name, func(t *testing.T) {
			v := verifyChanged(t, w, func(m *ledger.Memory, key []byte) bool {
				if !bytes.HasSuffix(key, derived.ID[:]) || len(m.Statuses) == 0 {
					return false
				}
				change(m)
				return true
			})
			if len(v.Problems) == 0 || !strings.Contains(v.Problems[0].Message, derived.ID.String()) {
				t.Errorf("the verification found %+v, not the row of memory %s", v.Problems, derived.ID)
			}
		})
	}
}
