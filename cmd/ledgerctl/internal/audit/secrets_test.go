package audit

import (
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
	"nexus/turns"
)

// A compaction that another program made has its summary as messages.
func TestSecretsOfARecordedCompactionAreFoundAndMasked(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)[:36] // put together, so that no scanner takes it for a leak
	turn := func() *api.Turn {
		return &api.Turn{Compaction: &api.Compaction{
			Replacement: []turns.Message{turns.TextMessage(turns.User, "the summary has "+secret)},
			Nudge:       []turns.Message{turns.TextMessage(turns.User, "go on with "+secret)},
		}}
	}
	found, err := secretsOf(t.Context(), new(terminal.Terminal), nil, turns.ID{}, turn())
	if err != nil || len(found) != 1 || found[0].Half != "summary" || found[0].Kind != "GitHub token" {
		t.Errorf("found %+v, %v", found, err)
	}
	masked := turn()
	turnview.Mask(masked)
	for _, m := range turnview.Messages(masked) {
		if text := string(m.Parts[0].ContentBytes()); strings.Contains(text, "Ab3d") || !strings.Contains(text, "****") {
			t.Errorf("shown is %q", text)
		}
	}
	both := turn()
	summary := "with " + secret
	both.Compaction.Summary = &summary
	if found, err := secretsOf(t.Context(), new(terminal.Terminal), nil, turns.ID{}, both); err != nil || len(found) != 1 {
		t.Errorf("a summary beside its messages: %+v, %v", found, err)
	}
}
