package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// killed returns a data folder as a kill -9 leaves it: a copy of one that a daemon has
// open. Its ledger holds everything that populate stores.
func killed(t *testing.T) string {
	t.Helper()
	dir, copied := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	populate(t, c)
	for last := d.storage.Mark.Mark(); ; { // all that was acknowledged is in the mark's file
		b := must[[]byte](t)(os.ReadFile(filepath.Join(dir, folder.MarkFile)))
		if strings.Contains(string(b), fmt.Sprintf(`"seq":%d,"sum":"%v"`, last.Log.Seq, last.Log.Sum)) {
			break
		}
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	stop(t, d, c)
	return copied
}

// largest returns the largest block of a stream.
func largest(t *testing.T, dir, stream string) string {
	t.Helper()
	names := must[[]string](t)(filepath.Glob(filepath.Join(embed.StreamDir(dir, stream), "msgs", "*.blk")))
	return slices.MaxFunc(names, func(a, b string) int {
		return int(must[os.FileInfo](t)(os.Stat(a)).Size() - must[os.FileInfo](t)(os.Stat(b)).Size())
	})
}

// recordEnds returns where the records of the newest block end.
func recordEnds(t *testing.T, dir, stream string) (ends []int64) {
	t.Helper()
	block := uint32(0)
	for r, err := range blocks.Records(t.Context(), embed.StreamDir(dir, stream), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Block != block {
			block, ends = r.Block, nil
		}
		ends = append(ends, r.Offset+r.Bytes)
	}
	return ends
}

// change rewrites a file.
func change(t *testing.T, name string, f func([]byte) []byte) {
	t.Helper()
	b := f(must[[]byte](t)(os.ReadFile(name)))
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// streamFiles returns what the files of the streams hold.
func streamFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsName} {
		for _, name := range must[[]string](t)(filepath.Glob(filepath.Join(embed.StreamDir(dir, stream), "msgs", "*"))) {
			all[name] = string(must[[]byte](t)(os.ReadFile(name)))
		}
	}
	return all
}

// refused opens a folder, which must be refused as damaged and left as it is.
func refused(t *testing.T, dir, stream string) {
	t.Helper()
	before := streamFiles(t, dir)
	d, err := Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err == nil {
		t.Fatalf("a damaged folder is opened; closed: %v", d.Close(t.Context()))
	}
	if damaged := new(disk.DamagedError); !errors.As(err, &damaged) || damaged.Stream != stream || !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("error %v, want one that names the damage of %s", err, stream)
	}
	if !maps.Equal(before, streamFiles(t, dir)) {
		t.Error("the refused start changed the files of the streams")
	}
}

// After a kill a bit of a block is wrong. The server would truncate the block there,
// and give the positions behind it out again.
func TestAFlippedBitAfterAKillRefusesTheStart(t *testing.T) {
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsName} {
		for _, projections := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, projections %v", stream, projections), func(t *testing.T) {
				dir := killed(t)
				if !projections {
					if err := os.RemoveAll(filepath.Join(dir, "projections")); err != nil {
						t.Fatal(err)
					}
				}
				change(t, largest(t, dir, stream), func(b []byte) []byte {
					b[len(b)/10] ^= 0x10
					return b
				})
				refused(t, dir, stream)
			})
		}
	}
}

// The end of the log is gone, as the server leaves it when it has truncated a damaged
// block. No record is damaged, and only the mark knows.
func TestALogThatEndsBeforeTheMarkRefusesTheStart(t *testing.T) {
	dir := killed(t)
	if err := os.RemoveAll(filepath.Join(dir, "projections")); err != nil {
		t.Fatal(err)
	}
	name := largest(t, dir, jetstream.StreamName)
	_ = os.Remove(filepath.Join(filepath.Dir(name), "index.db"))
	ends := recordEnds(t, dir, jetstream.StreamName)
	change(t, name, func(b []byte) []byte { return b[:ends[len(ends)-4]] })
	refused(t, dir, jetstream.StreamName)
}

// A write that did not finish was not acknowledged. The daemon starts, and continues.
func TestAnUnfinishedWriteIsRemoved(t *testing.T) {
	dir := killed(t)
	name := largest(t, dir, jetstream.StreamName)
	change(t, name, func(b []byte) []byte {
		ends := recordEnds(t, dir, jetstream.StreamName)
		next := slices.Clone(b[ends[len(ends)-2]:])
		binary.LittleEndian.PutUint64(next[4:], binary.LittleEndian.Uint64(next[4:])+1) // the sequence
		return append(b, next[:len(next)/2]...)
	})
	_, c := start(t, dir)
	continueAll(t, c)
	verified(t, c)
}

// rebooted makes the mark of a folder that of an earlier run of the machine.
func rebooted(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, folder.MarkFile)
	m, _, err := mark.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	if m.Boot == "" {
		t.Skip("this system does not name the runs of the machine")
	}
	change(t, name, func(b []byte) []byte {
		for at := 0; at < len(b); at += len(b) / 2 {
			sum, line, _ := bytes.Cut(bytes.TrimRight(b[at:at+len(b)/2], "\n\x00"), []byte(" "))
			line = bytes.Replace(line, []byte(m.Boot), []byte(strings.Repeat("0", len(m.Boot))), 1)
			fresh := sha256.Sum256(line)
			hex.Encode(sum, fresh[:])
			copy(b[at+len(sum)+1:], line)
		}
		return b
	})
}

// The power fails while a group of records is written, and the disk keeps some of them and
// not those before. None was acknowledged. The start removes them all, keeps them aside,
// and says so; if one of them was acknowledged it refuses.
func TestUnacknowledgedRecordsWithAHoleAreRemoved(t *testing.T) {
	hole := func(dir string) {
		name := largest(t, dir, jetstream.StreamName)
		ends := recordEnds(t, dir, jetstream.StreamName)
		change(t, name, func(b []byte) []byte {
			last := b[ends[len(ends)-2]:]
			for range 3 { // the middle one is a hole; the checksums of the others don't matter
				next := slices.Clone(last)
				binary.LittleEndian.PutUint64(next[4:], binary.LittleEndian.Uint64(next[4:])+1)
				b, last = append(b, next...), next
			}
			clear(b[len(b)-2*len(last) : len(b)-len(last)])
			return b
		})
	}
	dir := killed(t)
	hole(dir)
	t.Run("the machine did not go down", func(t *testing.T) { refused(t, dir, jetstream.StreamName) })
	rebooted(t, dir)
	t.Run("the machine went down", func(t *testing.T) {
		_, c := start(t, dir)
		continueAll(t, c)
		verified(t, c)
		if len(must[[]string](t)(filepath.Glob(filepath.Join(dir, "unsynced-*", jetstream.StreamName, "msgs", "*.blk")))) == 0 {
			t.Error("what was removed is not kept")
		}
	})
	t.Run("acknowledged", func(t *testing.T) {
		dir := killed(t)
		rebooted(t, dir)
		ends := recordEnds(t, dir, jetstream.StreamName)
		change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte {
			clear(b[ends[len(ends)-3]:ends[len(ends)-2]])
			return b
		})
		refused(t, dir, jetstream.StreamName)
	})
}

// After a clean stop a start reads no more than the newest blocks, and finds that the
// size of another differs.
func TestASizeThatChangedAfterACleanStopRefusesTheStart(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	populate(t, c)
	stop(t, d, c)
	change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte { return b[:len(b)*2/3] })
	refused(t, dir, jetstream.StreamName)
}

// Without the mark nobody can tell whether the end of the log is gone.
func TestAMissingMarkRefusesTheStart(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 2)
	stop(t, d, c)
	if err := os.Remove(filepath.Join(dir, folder.MarkFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), folder.MarkFile) {
		t.Errorf("start without the mark: %v", err)
	}
}

// A bit anywhere in a block, after a kill: no start serves less than was acknowledged.
func TestNoFlippedBitLosesAnAcknowledgedTurn(t *testing.T) {
	dir := killed(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsName} {
		name := largest(t, dir, stream)
		whole := must[[]byte](t)(os.ReadFile(name))
		for range 40 {
			at, bit := rng.IntN(len(whole)), rng.IntN(8)
			t.Run(fmt.Sprintf("%s at %d bit %d", stream, at, bit), func(t *testing.T) {
				b := slices.Clone(whole)
				b[at] ^= 1 << bit
				change(t, name, func([]byte) []byte { return b })
				refused(t, dir, stream)
			})
		}
		change(t, name, func([]byte) []byte { return whole })
	}
	_, c := start(t, dir)
	verified(t, c)
}

// One damaged copy of a key is made again from the other, and the log says so.
func TestADamagedCopyOfAKeyIsHealedAndLogged(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 1)
	stop(t, d, c)
	names := must[[]string](t)(filepath.Glob(filepath.Join(dir, "keys", "a", "*")))
	if len(names) == 0 {
		t.Fatal("no keys")
	}
	before := make(map[string]string)
	for _, name := range names {
		before[name] = string(must[[]byte](t)(os.ReadFile(name)))
		change(t, name, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	}
	log := new(lockedBuffer)
	_, c = startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(log, nil))})
	must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{}))
	extend(t, c, s.ID, 1)
	healed := 0
	for _, name := range names {
		if string(must[[]byte](t)(os.ReadFile(name))) == before[name] {
			healed++
		}
	}
	if healed == 0 || strings.Count(log.String(), "repaired from the other copy") != healed {
		t.Errorf("%d of %d copies are healed; the log:\n%s", healed, len(names), log)
	}
}

// A record is damaged while the daemon runs, or was before a clean stop. The scrub finds
// it: appends are refused, reads go on, the daemon is not ready and says why.
func TestTheScrubFindsWhatNobodyReads(t *testing.T) {
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsName} {
		t.Run(stream, func(t *testing.T) {
			dir := t.TempDir()
			d, c := start(t, dir)
			populate(t, c)
			s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
			extend(t, c, s.ID, 2)
			if err := d.storage.Scrub(t.Context(), d.storage.Mark.Mark(), time.Minute); err != nil || d.ready() != nil {
				t.Fatalf("a scrub of a sound ledger: %v, ready: %v", err, d.ready())
			}
			change(t, largest(t, dir, stream), func(b []byte) []byte { b[len(b)/2] ^= 8; return b })
			err := d.storage.Scrub(t.Context(), d.storage.Mark.Mark(), time.Minute)
			if damaged := (*disk.DamagedError)(nil); !errors.As(err, &damaged) || damaged.Stream != stream {
				t.Fatalf("the scrub says %v", err)
			}
			if err := d.ready(); !errors.Is(err, turns.ErrCorrupt) {
				t.Errorf("ready: %v", err)
			}
			m := turns.TextMessage(turns.User, "go on")
			if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}}); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("append: %v, want corrupt", err)
			}
			must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{}))
		})
	}
}

// A verification that meets a damaged record stops appends, also where no scrub runs. Each verb that changes something
// says that the ledger is damaged.
func TestAVerificationThatFindsDamageStopsAppends(t *testing.T) {
	dir := t.TempDir()
	d, c := startWith(t, config.Config{Data: dir, Scrub: "off"})
	populate(t, c)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 2)
	change(t, largest(t, dir, jetstream.StreamName), func(b []byte) []byte { b[len(b)/2] ^= 8; return b })
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); v.OK {
		t.Fatal("a damaged log is verified")
	}
	for until := time.Now().Add(time.Minute); d.ready() == nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
	}
	if err := d.ready(); !errors.Is(err, turns.ErrCorrupt) {
		t.Fatalf("ready after a minute: %v", err)
	}
	for verb, err := range map[string]error{
		"turn.append":    second(c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}})),
		"session.create": second(c.Create(t.Context(), api.CreateSession{})),
		"session.close":  second(c.Close(t.Context(), s.ID, api.CloseSession{})),
		"event.append":   second(c.AppendEvent(t.Context(), api.AppendEvent{Channel: "c", Kind: "k", Body: turns.Raw("{}")})),
		"memory.save":    second(c.SaveMemory(t.Context(), api.SaveMemory{Kind: "daily", Text: "a fact"})),
	} {
		if api.FromError(err).Code != api.Corrupt {
			t.Errorf("%s: %v, want corrupt", verb, err)
		}
	}
	must[*api.Context](t)(c.Context(t.Context(), s.ID, api.GetContext{}))
}

func second[T any](_ T, err error) error { return err }

// Appends go on while the scrub reads, and it takes no unfinished write for damage.
func TestTheScrubReadsBesideAppends(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			m, answer := turns.TextMessage(turns.User, strings.Repeat("words ", 500)), turns.TextMessage(turns.Assistant, "yes")
			if _, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{m}, Response: &answer}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for rounds := 0; ; rounds++ {
		if err := d.storage.Scrub(t.Context(), d.storage.Mark.Mark(), time.Minute); err != nil {
			t.Fatalf("round %d: %v", rounds, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
