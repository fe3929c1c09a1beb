package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
)

// whole returns a data folder as a kill leaves it, and what its ledger serves. The
// projections have everything: the daemon stopped once since the last append.
func whole(t *testing.T) (dir string, want state) {
	t.Helper()
	running := t.TempDir()
	d, c := start(t, running)
	populate(t, c)
	markAll(t, c)
	stop(t, d, c)
	d, c = start(t, running)
	want = observe(t, c, nil)
	dir = damaged(t, running, func(string) {})
	stop(t, d, c)
	return dir, want
}

// damaged copies a folder and damages the copy.
func damaged(t *testing.T, from string, damage func(dir string)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	damage(dir)
	return dir
}

// serves opens a folder and compares what it serves with want, then goes on.
func serves(t *testing.T, dir string, want state) {
	t.Helper()
	_, c := start(t, dir)
	if diff := cmp.Diff(want, observe(t, c, want.Contexts)); diff != "" {
		t.Errorf("served before (-) and after the repair (+):\n%s", diff)
	}
	verified(t, c)
	continueAll(t, c)
}

// Whatever is wrong with the files of the log, the projections have its records.
// Everything is served as before, under the positions of before.
func TestRepairOfTheLogFromTheProjections(t *testing.T) {
	dir, want := whole(t)
	rng := rand.New(rand.NewPCG(3, 4))
	block := func(dir string) string { return largest(t, dir, jetstream.StreamName) }
	cases := map[string]func(dir string){
		"a zeroed page": func(dir string) {
			change(t, block(dir), func(b []byte) []byte { clear(b[len(b)/2:][:4096]); return b })
		},
		"the second half is gone": func(dir string) {
			change(t, block(dir), func(b []byte) []byte { return b[:len(b)/2] })
		},
		"all is gone":       func(dir string) { change(t, block(dir), func(b []byte) []byte { return nil }) },
		"no block":          func(dir string) { _ = os.Remove(block(dir)) },
		"noise everywhere":  func(dir string) { change(t, block(dir), func(b []byte) []byte { noise(rng, b); return b }) },
		"noise in a part":   func(dir string) { change(t, block(dir), func(b []byte) []byte { noise(rng, b[777:9999]); return b }) },
		"the first is gone": func(dir string) { change(t, block(dir), func(b []byte) []byte { return b[1000:] }) },
		"an old end": func(dir string) {
			ends := recordEnds(t, dir, jetstream.StreamName)
			change(t, block(dir), func(b []byte) []byte { return b[:ends[len(ends)-9]] })
		},
	}
	for n := range 10 {
		cases[fmt.Sprint("a bit ", n)] = func(dir string) {
			change(t, block(dir), func(b []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b })
		}
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			dir := damaged(t, dir, damage)
			refused(t, dir, jetstream.StreamName)
			out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir})
			if err != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			if len(out.Streams[0].Restored) == 0 || out.Aside == "" {
				t.Errorf("nothing was restored: %+v", out)
			}
			serves(t, dir, want)
			if _, err := os.Stat(filepath.Join(out.Aside, "damaged", jetstream.StreamName, "msgs")); err != nil {
				t.Errorf("the damaged files are not kept: %v", err)
			}
		})
	}
}

func noise(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// Whatever is wrong with the files of the blobs, their second stream has them.
func TestRepairOfTheBlobsFromTheirCopy(t *testing.T) {
	dir, want := whole(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for name, damage := range map[string]func(b []byte) []byte{
		"a bit":           func(b []byte) []byte { b[rng.IntN(len(b))] ^= 1; return b },
		"another bit":     func(b []byte) []byte { b[rng.IntN(len(b))] ^= 4; return b },
		"zeroes":          func(b []byte) []byte { clear(b[len(b)/2:][:len(b)/4]); return b },
		"the second half": func(b []byte) []byte { return b[:len(b)/2] },
		"all":             func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := damaged(t, dir, func(dir string) { change(t, largest(t, dir, jetstream.BlobsName), damage) })
			refused(t, dir, jetstream.BlobsName)
			out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir})
			if err != nil || len(out.Streams[1].Restored) == 0 {
				t.Fatalf("%+v, %v", out, err)
			}
			serves(t, dir, want)
		})
	}
}

// A damaged second copy of the blobs is made again; then a repair can use it.
func TestADamagedCopyOfTheBlobsIsMadeAgain(t *testing.T) {
	dir, want := whole(t)
	change(t, largest(t, dir, jetstream.CopyName), func(b []byte) []byte { b[len(b)/3] ^= 1; return b })
	d, c := start(t, dir)
	for { // until the server has filled the mirror
		info := must[js.Stream](t)(must[js.JetStream](t)(js.New(d.ledgerConn)).Stream(t.Context(), jetstream.CopyName)).CachedInfo()
		if info.State.LastSeq == d.storage.Mark.Mark().Blobs.Seq {
			break
		}
	}
	stop(t, d, c)
	change(t, largest(t, dir, jetstream.BlobsName), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	if out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir}); err != nil || len(out.Streams[1].Restored) == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	serves(t, dir, want)
}

// Where nothing is wrong, a repair changes nothing, and says so.
func TestRepairOfASoundFolderChangesNothing(t *testing.T) {
	dir, want := whole(t)
	before := streamFiles(t, dir)
	out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir})
	if err != nil || out.Aside != "" || len(out.Streams[0].Damage)+len(out.Streams[1].Damage) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if diff := cmp.Diff(before, streamFiles(t, dir)); diff != "" {
		t.Error("files changed")
	}
	serves(t, dir, want)
}

// A running daemon's folder is not repaired.
func TestRepairOfAFolderInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	if _, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir}); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("%v, want that the folder is in use", err)
	}
}

// The log is damaged and the projections are gone: each record without a copy is named,
// nothing is changed, and with AcceptLoss the other sessions serve on. The position is
// not given out again, and the session that lost the record takes no more turns.
func TestRepairNamesWhatIsLost(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	keep := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	hit := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, keep.ID, 3)
	extend(t, c, hit.ID, 3)
	extend(t, c, hit.ID, 1) // the turn that is lost
	extend(t, c, keep.ID, 3)
	last := must[*api.Session](t)(c.Session(t.Context(), keep.ID)).Position
	stop(t, d, c)
	if err := os.RemoveAll(filepath.Join(dir, "projections")); err != nil {
		t.Fatal(err)
	}
	change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte {
		ends := recordEnds(t, dir, jetstream.StreamName)
		b[ends[len(ends)-4]-20] ^= 1 // in the body of the turn that is lost
		return b
	})
	// After a kill every record is read. This stop was clean, so the damage is found here only.
	out, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir})
	loss := (*disk.LossError)(nil)
	if !errors.As(err, &loss) || len(loss.Lost) != 1 || loss.Lost[0].Subject == "" || out.Aside != "" {
		t.Fatalf("%+v, %v", out, err)
	}
	out, err = mend.Repair(t.Context(), mend.RepairConfig{Data: dir, AcceptLoss: true})
	if err != nil || len(out.Streams[0].Lost) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	_, c = start(t, dir)
	extend(t, c, keep.ID, 1)
	if got := must[*api.Session](t)(c.Session(t.Context(), keep.ID)).Position; got <= last {
		t.Errorf("position %s after %s: a position is given out again", got, last)
	}
	m := turns.TextMessage(turns.User, "go on")
	if _, err := c.Append(t.Context(), hit.ID, api.AppendTurn{Messages: []turns.Message{m}}); err == nil {
		t.Error("a session that lost a turn takes another")
	}
	v, err := c.As(api.Operator).Verify(t.Context())
	if err != nil || v.OK || !slices.ContainsFunc(v.Problems, func(p api.Problem) bool { return p.Session == hit.ID }) {
		t.Errorf("verify: %+v, %v", v, err)
	}
}
