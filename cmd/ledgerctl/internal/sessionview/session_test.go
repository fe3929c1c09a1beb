package sessionview

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/terminal"
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

// A sub-agent stands behind the session that started it, wherever its id or its time would
// put it; one whose session is not in the list stands by itself.
func TestSubAgentsStandBehindTheirSession(t *testing.T) {
	id := func(n byte) turns.ID { return turns.ID{15: n} }
	s := func(n, by byte) api.Session {
		s := api.Session{ID: id(n)}
		if by != 0 {
			s.SpawnedBy = &api.SpawnedBy{Session: id(by)}
		}
		return s
	}
	list, depth := WithParts([]api.Session{s(1, 4), s(2, 1), s(3, 9), s(4, 0), s(5, 6), s(6, 5)})
	var got []string
	for i := range list {
		got = append(got, fmt.Sprint(Part(depth[i]), list[i].ID[15]))
	}
	if want := []string{"3", "4", "↳ 1", "  ↳ 2", "5", "↳ 6"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
