package export

import (
	"io"
	"path/filepath"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A file with an event that had no content is not taken for the whole chain.
func TestAChainWithAnEventWithoutContentIsExportedAgain(t *testing.T) {
	events := []api.Event{{ID: turns.ID{1}, Body: turns.Raw(`{"error":"in the body"}`), Hash: turns.Hash{1}}, {ID: turns.ID{2}, Error: api.Corrupt, Hash: turns.Hash{2}}, {ID: turns.ID{3}, Hash: turns.Hash{3}}}
	for _, x := range []struct {
		events []api.Event
		lost   int
	}{{events, 1}, {events[:1], 0}} {
		name := filepath.Join(t.TempDir(), "mail.jsonl")
		var lost []api.Event
		err := WriteFile(name, func(w io.Writer) (err error) {
			lost, err = writeEvents(w, func(yield func(api.Event, error) bool) {
				for _, v := range x.events {
					if !yield(v, nil) {
						return
					}
				}
			})
			return err
		})
		if err != nil || len(lost) != x.lost {
			t.Errorf("%d events: %+v, %v", len(x.events), lost, err)
		}
		if hash, err := lastHash(name); (err != nil) != (x.lost > 0) || x.lost == 0 && hash != x.events[0].Hash {
			t.Errorf("%d events, %d without content: the file ends with %v, %v", len(x.events), x.lost, hash, err)
		}
	}
}
