package audit

import (
	"bytes"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

func TestVerifySaysHowManyProblemsAreNotListed(t *testing.T) {
	for count, want := range map[uint64]string{1: "", 2: "and 1 more problem that is not listed\n", 1235: "and 1,234 more problems that are not listed\n"} {
		var out bytes.Buffer
		Print(&terminal.Terminal{Out: &out}, &api.Verified{Problems: []api.Problem{{Code: api.Corrupt, Message: "other bytes"}}, Count: count})
		if got := out.String(); !strings.HasSuffix(got, want) || (want == "") != !strings.Contains(got, "not listed") {
			t.Errorf("%d problems, one listed:\n%s", count, got)
		}
	}
}
