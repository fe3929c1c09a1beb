package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

var bitrot = flag.Int("bitrot", 20, "TestBitrot: how many damaged copies of a data folder it opens")
var bitrotSeed = flag.Uint64("bitrot-seed", 8, "TestBitrot: which bits; with one seed each, several processes share a long run")

// Whatever bit of whatever file of a data folder is wrong after a kill: the daemon
// starts and serves what it served before, or it refuses the start, and after a repair
// serves what it served before. A start with damaged credentials, or with a damaged marker
// of a folder of files, is refused under the name of that file, and serves what it served
// before once the file is replaced. Nothing else is ever served, and no position is given
// out again. The long run is
//
//	go test ./cmd/internal/daemon -run TestBitrot -bitrot 2000 -v -timeout 2h
//
// It can't see a bit that nobody reads within it, and damage of two files at once.
func TestBitrot(t *testing.T) {
	dir, want := whole(t)
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, ierr := d.Info(); err == nil && ierr == nil && d.Type().IsRegular() && info.Size() > 0 {
			names = append(names, must[string](t)(filepath.Rel(dir, path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string][]string)
	for _, name := range names {
		k := kindOf(name)
		kinds[k] = append(kinds[k], name)
	}
	order := slices.Sorted(maps.Keys(kinds))
	rng := rand.New(rand.NewPCG(7, *bitrotSeed))
	outcomes := make(map[string]map[string]int)
	for n := range *bitrot {
		kind := order[n%len(order)]
		name := kinds[kind][rng.IntN(len(kinds[kind]))]
		zero := rng.IntN(4) == 0
		var at int
		copied := damaged(t, dir, func(dir string) {
			change(t, filepath.Join(dir, name), func(b []byte) []byte {
				if at = rng.IntN(len(b)); zero {
					clear(b[at/4096*4096 : min(len(b), at/4096*4096+4096)])
				} else {
					b[at] ^= 1 << rng.IntN(8)
				}
				return b
			})
		})
		got := outcome(t, copied, want)
		if rest, refused := strings.CutPrefix(got, "refused"); refused && byHand(name) && strings.Contains(rest, filepath.Join(copied, name)) {
			change(t, filepath.Join(copied, name), func([]byte) []byte { return must[[]byte](t)(os.ReadFile(filepath.Join(dir, name))) })
			got = "refused by its name, with the file of before: " + outcome(t, copied, want)
		} else if refused {
			t.Errorf("%s at %d (zeroed page: %v): %s", name, at, zero, got)
			got = "refused otherwise"
		}
		if outcomes[kind] == nil {
			outcomes[kind] = make(map[string]int)
		}
		outcomes[kind][got]++
		if strings.Contains(got, "WRONG") {
			t.Errorf("%s at %d (zeroed page: %v): %s", name, at, zero, got)
		}
		_ = os.RemoveAll(copied)
	}
	for _, kind := range order {
		t.Logf("%-24s %v", kind, outcomes[kind])
	}
}

// byHand reports whether a file is kept by whoever runs the daemon, and no repair makes it
// again: the credentials, and the marker of a folder of files.
func byHand(name string) bool {
	return strings.HasPrefix(name, "users/") || strings.HasPrefix(name, "files/")
}

// kindOf returns the kind of a file of the data folder.
func kindOf(name string) string {
	switch dir, base := filepath.Split(name); {
	case strings.Contains(dir, "NEXUS_LEDGER") && strings.HasPrefix(name, "jetstream"):
		return "log " + filepath.Ext(base)
	case strings.Contains(dir, "NEXUS_BLOBS/") && strings.HasPrefix(name, "jetstream"):
		return "blobs " + filepath.Ext(base)
	case strings.Contains(dir, "NEXUS_BLOBS_COPY"):
		return "copy " + filepath.Ext(base)
	case strings.HasPrefix(name, "projections"):
		return "projections " + strings.Trim(strings.SplitN(base, "-", 2)[0], "0123456789")
	case strings.HasPrefix(name, "keys"):
		return "keys"
	case strings.HasPrefix(name, "streams"):
		return "copy of the configuration"
	case dir == "":
		return base
	case strings.HasPrefix(name, "search"):
		return "search"
	default:
		return name
	}
}

// outcome says what becomes of a damaged folder.
func outcome(t *testing.T, dir string, want state) string {
	open := func() (*Daemon, error) {
		return Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	}
	d, err := open()
	how := ""
	if err != nil {
		if _, rerr := mend.Repair(t.Context(), mend.RepairConfig{Data: dir}); rerr != nil {
			return fmt.Sprintf("refused, not repaired: %v", rerr)
		}
		if d, err = open(); err != nil {
			return fmt.Sprintf("refused, also after a repair: %v", err)
		}
		how = "repaired, "
	}
	wrong, err := isServed(t, d, want)
	if errors.Is(err, ledger.ErrCorrupt) { // it ended by itself; a supervisor starts it again
		if d, err = open(); err != nil {
			return fmt.Sprintf("refused after a fault: %v", err)
		}
		how += "ended by itself and started again, "
		wrong, err = isServed(t, d, want)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("WRONG: %s%v", how, err)
	case wrong != "":
		return fmt.Sprintf("WRONG: %sserved otherwise: %s", how, wrong)
	}
	return how + "served the same"
}

// isServed compares what a daemon serves, verifies it, appends to it, and stops it. err
// is that of a read; wrong is "" if all is served as it was.
func isServed(t *testing.T, d *Daemon, want state) (wrong string, err error) {
	nc := must[*nats.Conn](t)(d.Connect())
	c := client.New(nc, "default", "main")
	defer func() {
		nc.Close()
		if cerr := d.Close(t.Context()); err == nil && !errors.Is(cerr, ledger.ErrCorrupt) {
			err = cerr
		}
	}()
	if err := readAll(t, c.As(api.Operator)); err != nil {
		return "", err
	}
	before := d.storage.Mark.Mark().Log.Seq
	if diff := cmp.Diff(want, observe(t, c, want.Contexts)); diff != "" {
		return diff, nil
	}
	v, err := c.As(api.Operator).Verify(t.Context())
	if err != nil {
		return "", err
	}
	for _, p := range v.Problems {
		if !strings.HasPrefix(p.Message, "no checkpoint is signed any more") { // a flip in what signs is seen, and harms no content
			return fmt.Sprintf("verify: %+v", v), nil
		}
	}
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		return "", err
	}
	extend(t, c, s.ID, 1)
	if after := d.storage.Mark.Mark().Log.Seq; after <= before {
		return fmt.Sprintf("the log reached %d, now %d", before, after), nil
	}
	return "", nil
}

// readAll reads every session, turn and context.
func readAll(t *testing.T, op *client.Client) error {
	for s, err := range op.Sessions(t.Context()) {
		if err != nil {
			return err
		}
		if s.State == "erased" {
			continue
		}
		for x, err := range op.Turns(t.Context(), s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				return err
			}
			if x.Error != "" && x.Error != api.Erased {
				return fmt.Errorf("%w: turn %s: %s", ledger.ErrCorrupt, x.ID, x.Error)
			}
		}
		if s.Head != nil {
			if _, err := op.Context(t.Context(), s.ID, api.GetContext{}); err != nil {
				return err
			}
		}
	}
	return nil
}
