package contextview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/ledger/api"
	"nexus/turns"
)

// contextWith makes a context of pieces, named by a letter for the turn: "a" is its messages
// and "A" its response, each one message with a text.
func contextWith(t *testing.T, pieces ...[3]string) *api.Context {
	t.Helper()
	cx := &api.Context{}
	for _, p := range pieces {
		turn, half := turns.DeriveID(time.Time{}, "turn", p[0]), "messages"
		if p[0] >= "A" && p[0] <= "Z" {
			turn, half = turns.DeriveID(time.Time{}, "turn", string(p[0][0]+32)), "response"
		}
		s := api.Source{Turn: turn, Half: half, Status: p[1], Tokens: uint64(len(p[2])), Messages: 1}
		if p[2] == "" {
			s.Messages = 0
		} else {
			b, err := turns.EncodeJSON(turns.TextMessage(turns.User, p[2]))
			if err != nil {
				t.Fatal(err)
			}
			cx.Messages = append(cx.Messages, b)
		}
		cx.Sources = append(cx.Sources, s)
	}
	return cx
}

func pieces(t *testing.T, ps ...[3]string) []Piece {
	t.Helper()
	out, err := PiecesOf(contextWith(t, ps...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiffSaysWhatIsGoneAddedAndChanged(t *testing.T) {
	a := pieces(t, [3]string{"a", "verbatim", "one"}, [3]string{"A", "verbatim", "two"}, [3]string{"b", "verbatim", "long result"}, [3]string{"B", "verbatim", "three"})
	for _, tc := range []struct {
		name string
		b    []Piece
		want []string
		sums map[Change]Totals
	}{
		{"nothing", a, []string{"kept one", "kept two", "kept long result", "kept three"}, map[Change]Totals{Kept: {Pieces: 4, Messages: 4, Tokens: 22}}},
		{"a turn more", append(a[:4:4], pieces(t, [3]string{"c", "verbatim", "more"})...), []string{"kept one", "kept two", "kept long result", "kept three", "added more"},
			map[Change]Totals{Kept: {Pieces: 4, Messages: 4, Tokens: 22}, Added: {Pieces: 1, Messages: 1, Tokens: 4}}},
		{"a summary for the first turn", append(pieces(t, [3]string{"K", "summary", "sum"}), a[2:]...), []string{"added sum", "gone one", "gone two", "kept long result", "kept three"},
			map[Change]Totals{Kept: {Pieces: 2, Messages: 2, Tokens: 16}, Added: {Pieces: 1, Messages: 1, Tokens: 3}, Gone: {Pieces: 2, Messages: 2, Tokens: 6}}},
		{"a result that is shortened", []Piece{a[0], a[1], pieces(t, [3]string{"b", "elided", "short"})[0], a[3]}, []string{"kept one", "kept two", "changed long result to short", "kept three"},
			map[Change]Totals{Kept: {Pieces: 3, Messages: 3, Tokens: 11}, Changed: {Pieces: 1, Messages: 1, Tokens: 11, Now: 5}}},
		{"nothing left", nil, []string{"gone one", "gone two", "gone long result", "gone three"}, map[Change]Totals{Gone: {Pieces: 4, Messages: 4, Tokens: 22}}},
	} {
		entries := Diff(a, tc.b)
		var got []string
		for _, e := range entries {
			line := string(e.Change)
			for i, p := range []*Piece{e.Old, e.New} {
				if p == nil || i == 1 && e.Change == Kept {
					continue
				}
				if i == 1 && e.Old != nil {
					line += " to"
				}
				line += " " + p.Messages[0].Parts[0].Content
			}
			got = append(got, line)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
		if d := cmp.Diff(tc.sums, Sum(entries)); d != "" {
			t.Errorf("%s: sums (-want +got):\n%s", tc.name, d)
		}
	}
}

func TestPiecesHaveEachMessageOnce(t *testing.T) {
	got := pieces(t, [3]string{"a", "verbatim", "one"}, [3]string{"b", "verbatim", ""}, [3]string{"B", "verbatim", "two"})
	if len(got) != 3 || len(got[0].Messages) != 1 || len(got[1].Messages) != 0 || got[2].Messages[0].Parts[0].Content != "two" {
		t.Errorf("%+v", got)
	}
	cx := contextWith(t, [3]string{"a", "verbatim", "one"})
	cx.Sources[0].Messages = 0
	if _, err := PiecesOf(cx); err == nil {
		t.Error("a message of no source is left out silently")
	}
}
