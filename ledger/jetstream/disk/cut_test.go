package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// What no fsync covered goes, in the block where it begins and in those after it. It is
// kept aside, and what is left is sound and ends before it.
func TestCutRemovesWhatIsUnfinishedAndKeepsIt(t *testing.T) {
	dir, m, _ := sound(t)
	stream := embed.StreamDir(dir, jetstream.StreamName)
	numbers, err := blocks.Numbers(stream)
	if err != nil || len(numbers) < 4 {
		t.Fatalf("blocks %v, %v", numbers, err)
	}
	hurt := numbers[len(numbers)-3]
	var first blocks.Record // the second of its block
	for r, err := range blocks.Records(t.Context(), stream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Block == hurt && r.Offset > 0 && first.Seq == 0 {
			first = r
		}
	}
	before := make(map[uint32][]byte)
	for _, n := range numbers {
		if before[n], err = os.ReadFile(filepath.Join(stream, blocks.Path(n))); err != nil {
			t.Fatal(err)
		}
	}
	change(t, filepath.Join(stream, blocks.Path(hurt)), func(b []byte) []byte {
		clear(b[first.Offset+100 : first.Offset+200])
		before[hurt] = append([]byte(nil), b...)
		return b
	})
	m.Log, m.Closed = mark.Place{}, nil // nothing is known to be acknowledged
	if _, err := disk.Inspect(t.Context(), dir, m, false); err == nil {
		t.Error("it is no damage though the machine did not go down")
	}
	// Later records prove that it was on the disk, where the appends expected its position.
	if _, err := disk.Inspect(t.Context(), dir, m, true); err == nil {
		t.Error("it is no damage though later records prove it")
	}
	r, err := blocks.Check(t.Context(), stream, blocks.Options{Unsynced: true})
	if err != nil || r.Err() != nil || r.Torn == nil || r.Torn.Seq != first.Seq || r.Torn.Later != 2 {
		t.Fatalf("torn %+v, %v, %v", r.Torn, r.Err(), err)
	}
	aside, err := disk.Cut(dir, jetstream.StreamName, *r.Torn)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers[len(numbers)-3:] {
		if kept, err := os.ReadFile(filepath.Join(aside, blocks.Path(n))); err != nil || string(kept) != string(before[n]) {
			t.Errorf("block %d is not kept as it was: %v", n, err)
		}
	}
	found, err := disk.Inspect(t.Context(), dir, m, false)
	if err != nil || found.TornLog != nil || found.Mark.Log.Seq != first.Seq-1 {
		t.Errorf("after it: torn %+v, the log ends at %d, %v; want %d", found.TornLog, found.Mark.Log.Seq, err, first.Seq-1)
	}
}
