package sessionview

import (
	"bytes"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// What a transcript says of its session is shown masked too.
func TestSettingsOfASessionAreMasked(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	var out bytes.Buffer
	s := &api.Session{Title: "use ***", Meta: turns.Raw(`{"title":"use ` + secret + `","env":{"key":"a\n` + secret + `"}}`)}
	if err := Print(&terminal.Terminal{Out: &out}, s); err != nil || strings.Contains(out.String(), secret) || strings.Count(out.String(), "****") < 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
