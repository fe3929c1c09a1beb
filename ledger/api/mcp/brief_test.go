package mcp

import (
	"errors"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// What is shortened shows no credential, also where the cut is within it.
func TestShortenedTextsMaskCredentials(t *testing.T) {
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)[:36] // put together, so that no scanner takes it for a leak
	text := strings.Repeat("word ", 20) + secret + strings.Repeat(" word", 10_000)
	for n := range 200 {
		got := shortened(text, n+3)
		if strings.Contains(got, "gh"+"p") || len(got) > n+3 {
			t.Fatalf("%d bytes: %q", n+3, got)
		}
	}
	if got, want := shortened("use "+secret+" now", 100), "use "+strings.Repeat("*", len(secret))+" now"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAHitWithSomeOfTheWordsSaysSo(t *testing.T) {
	r := searchResult{Hits: []searchHit{{Kind: "turn"}, {Kind: "turn", Some: true}, {Kind: "memory", Some: true}, {Kind: "event", Some: true}}}
	f := newFrame()
	r.text(f)
	for n, line := range []string{"1. turn", "2. turn", "3. memory", "4. event"} {
		_, rest, found := strings.Cut(f.String(), line)
		rest, _, _ = strings.Cut(rest, "\n")
		if !found || strings.HasSuffix(rest, ", some of the words") != (n > 0) {
			t.Errorf("hit %d: %q", n+1, rest)
		}
	}
}

// The head of a session can move while a turn is looked for by its number. Then the other
// path is not read to its end.
func TestATurnIsLookedForNoFartherThanItCanBe(t *testing.T) {
	read := 0
	path := func(depths ...uint64) func(func(api.Turn, error) bool) {
		return func(yield func(api.Turn, error) bool) {
			read = 0
			for _, d := range depths {
				if read++; !yield(api.Turn{ID: turns.ID{byte(d)}, Depth: d}, nil) {
					return
				}
			}
		}
	}
	if id, err := atDepth(path(1, 2, 3, 4, 5), 3, 2); err != nil || id != (turns.ID{3}) || read != 3 {
		t.Errorf("%v, %v after %d turns", id, err, read)
	}
	if id, err := atDepth(path(9, 8, 7, 6, 5), 8, 1); err != nil || id != (turns.ID{8}) || read != 2 {
		t.Errorf("%v, %v after %d turns", id, err, read)
	}
	if id, err := atDepth(path(200, 199, 198, 197, 196), 8, 1); err != nil || !id.IsZero() || read != 2 {
		t.Errorf("%v, %v after %d turns", id, err, read)
	}
	fails := errors.New("fails")
	if _, err := atDepth(func(yield func(api.Turn, error) bool) { yield(api.Turn{}, fails) }, 8, 1); !errors.Is(err, fails) {
		t.Error(err)
	}
}
