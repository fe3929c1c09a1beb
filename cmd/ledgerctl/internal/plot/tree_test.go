package plot

import (
	"bytes"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A session with very many forks is drawn in part, and says so.
func TestTreePictureCountsWhatItLeavesOut(t *testing.T) {
	tree := &api.Tree{}
	for i := range 3 * maxLanes {
		s := api.TreeSession{ID: turns.ID{byte(i + 1)}, State: "open", Branches: []api.Branch{{From: 1, To: 9}}}
		tree.Sessions = append(tree.Sessions, s)
	}
	ls, left, err := Lanes(t.Context(), nil, tree)
	if err != nil || len(ls) != maxLanes || left != 2*maxLanes {
		t.Fatalf("%d lanes, %d left out: %v", len(ls), left, err)
	}
	var b bytes.Buffer
	if err := Tree(&b, ls, left, turns.ID{}); err != nil || !strings.Contains(b.String(), "80 sessions not drawn") {
		t.Errorf("%v, %.400s", err, b.String())
	}
}
