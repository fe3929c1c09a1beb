package blocks

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/ledger"
)

var (
	flips = flag.Int("flips", 100, "how many random bits TestEveryFlipIsNoticed changes, one after another, in each of 12 cases")
	seed  = flag.Uint64("flips-seed", 1, "the seed of the random bits")
)

// outcome is what a report says of a folder in which one place was changed.
func outcome(r Report) string {
	switch {
	case r.Err() != nil:
		return "damage"
	case r.Torn != nil:
		return "torn"
	case r.Index.Use == Unreadable:
		return "index"
	}
	return "missed"
}

// changed runs f while the file has these bytes. It writes in place: a file
// system may flush one that is truncated to nothing and written again.
func changed(t *testing.T, name string, content []byte, f func()) {
	t.Helper()
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i, content := range [][]byte{content, before} {
		_, err := file.WriteAt(content, 0)
		if err := errors.Join(err, file.Truncate(int64(len(content)))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			f()
		}
	}
}

// at returns the record of a block that has the byte at offset.
func at(recs []Record, block string, offset int64) Record {
	i := slices.IndexFunc(recs, func(r Record) bool {
		return strings.HasSuffix(block, blockPath(r.Block)) && offset >= r.Offset && offset < r.Offset+r.Bytes
	})
	return recs[i]
}

// One bit is changed, in each file of msgs in turn. In a stream like the ledger's,
// where every message has a header, none is missed. In one without headers the
// checksum does not tell where a subject ends, and Options.Valid must.
func TestEveryFlipIsNoticed(t *testing.T) {
	for _, plain := range []bool{false, true} {
		s := start(t, t.TempDir(), smallBlocks)
		sent := small(plain)
		s.publish(t, sent...)
		folders := map[string]string{"killed": killed(t, s)}
		s.stop(t)
		folders["stopped"] = copied(t, s.folder())
		known := func(r Record) error {
			if m := sent[r.Seq-1]; m.subject != r.Subject {
				return errors.New("no subject of the test")
			}
			return nil
		}
		for _, state := range []string{"killed", "stopped"} {
			dir := folders[state]
			recs := all(t, dir, 0)
			last := recs[len(recs)-1]
			for _, acked := range []uint64{last.Seq, last.Seq - 1, 0} {
				table, subjects := map[string]int{}, 0
				one := func(name string, content []byte, bit int64) {
					flipped := slices.Clone(content)
					flipped[bit/8] ^= 1 << (bit % 8)
					changed(t, name, flipped, func() {
						r := check(t, dir, Options{Acked: acked})
						got := outcome(r)
						kind := filepath.Ext(name)
						table[kind+" "+got]++
						if kind == ".db" {
							if got != "index" {
								t.Errorf("bit %d of %s: %s", bit, name, got)
							}
							return
						}
						rec := at(recs, name, bit/8)
						inSubject := bit/8-rec.Offset >= 20 && bit/8-rec.Offset < 22
						switch {
						case got == "damage":
						case got == "torn" && acked < last.Seq && state == "killed" && rec.Seq == last.Seq:
						case got == "missed" && inSubject && rec.Header == nil:
							subjects++
							if r := check(t, dir, Options{Acked: acked, Valid: known}); r.Err() == nil {
								t.Errorf("bit %d of %s: Valid did not notice the subject", bit, name)
							}
						default:
							t.Errorf("bit %d of %s, in record %d of %d: %s; torn %+v", bit, name, rec.Seq, last.Seq, got, r.Torn)
						}
					})
				}
				files, err := filepath.Glob(filepath.Join(dir, msgsDir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				rnd := rand.New(rand.NewPCG(*seed, acked))
				for i := range *flips {
					name := files[i%len(files)]
					content, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					one(name, content, rnd.Int64N(int64(len(content))*8))
				}
				t.Logf("headers in all %v, %s, acked %d of %d, %d random flips: %v", !plain, state, acked, last.Seq, *flips, table)
				if acked == 0 && state == "killed" { // every bit of what no checksum covers, and of the last record
					clear(table)
					for _, r := range []Record{recs[0], recs[1], recs[30], last} {
						name := filepath.Join(dir, blockPath(r.Block))
						content, err := os.ReadFile(name)
						if err != nil {
							t.Fatal(err)
						}
						for bit := r.Offset * 8; bit < (r.Offset+min(r.Bytes, 100))*8; bit++ {
							one(name, content, bit)
						}
					}
					t.Logf("  every bit of the first 100 bytes of records 1, 2, 31 and %d: %v, %d in the length of a subject", last.Seq, table, subjects)
				}
			}
		}
	}
}

// A torn write of the last record leaves a part of it. That is torn above what
// was acknowledged, and damage up to there.
func TestATruncatedLastRecordIsTorn(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	dir := killed(t, s)
	s.stop(t)
	recs := all(t, dir, 0)
	last := recs[len(recs)-1]
	name := filepath.Join(dir, blockPath(last.Block))
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	fill := make([]byte, 9000)
	for n := range last.Bytes {
		for _, zeros := range []int{0, 4096, 9000} {
			if n == 0 && zeros == 0 || zeros > 0 && last.Bytes-n < sumSize {
				continue // it ends with a whole record, or with one that has a wrong checksum
			}
			changed(t, name, append(slices.Clone(content[:last.Offset+n]), fill[:zeros]...), func() {
				r := check(t, dir, Options{Acked: last.Seq - 1})
				want := Tail{Block: last.Block, Offset: last.Offset, Bytes: n + int64(zeros), Seq: last.Seq, Zeros: n == 0}
				if r.Err() != nil || r.Torn == nil || *r.Torn != want || r.Last != last.Seq-1 {
					t.Fatalf("%d bytes and %d zeros: %+v, want %+v; %v", n, zeros, r.Torn, want, r.Err())
				}
				if r := check(t, dir, Options{Acked: last.Seq}); r.Err() == nil || r.Torn != nil || r.Damage[0].First != last.Seq || r.Damage[0].Last != last.Seq {
					t.Fatalf("%d bytes and %d zeros, acknowledged: %v, torn %+v", n, zeros, r.Err(), r.Torn)
				}
			})
		}
	}
}

// A page of zeros is damage wherever it is, except in the last record if that was not acknowledged.
func TestAZeroedPageIsNoticed(t *testing.T) {
	const page = 4096
	s := start(t, t.TempDir())
	s.publish(t, large()...)
	s.publish(t, messages(false, 20_000)...)
	dir := killed(t, s)
	s.stop(t)
	recs := all(t, dir, 0)
	last := recs[len(recs)-1]
	for _, acked := range []uint64{last.Seq, 0} {
		table := map[string]int{}
		rnd := rand.New(rand.NewPCG(*seed, acked))
		for _, b := range check(t, dir, Options{}).Blocks {
			pages := []int64{0, (b.Size - 1) / page, (b.Size-1)/page - 1}
			for range 4 {
				pages = append(pages, rnd.Int64N((b.Size+page-1)/page))
			}
			for _, p := range pages {
				name := filepath.Join(dir, blockPath(b.Number))
				if p < 0 {
					continue
				}
				content, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				clear(content[p*page : min((p+1)*page, b.Size)])
				changed(t, name, content, func() {
					got := outcome(check(t, dir, Options{Acked: acked}))
					table[got]++
					if got != "damage" && (got != "torn" || acked > 0 || b.Number != last.Block || (p+1)*page <= last.Offset) {
						t.Errorf("page %d of block %d: %s", p, b.Number, got)
					}
				})
			}
		}
		t.Logf("acked %d of %d: %v", acked, last.Seq, table)
	}
}

// Every bit of the files that make it a stream.
func TestEveryFlipOfTheConfigurationIsNoticed(t *testing.T) {
	s := start(t, t.TempDir())
	dir := copied(t, s.folder())
	s.stop(t)
	for _, name := range []string{metaFile, sumFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for bit := range info.Size() * 8 {
			flip(t, filepath.Join(dir, name), bit)
			if _, err := ReadStream(dir); !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("bit %d of %s: %v, want corrupt", bit, name, err)
			}
			flip(t, filepath.Join(dir, name), bit)
		}
	}
	if _, err := ReadStream(dir); err != nil {
		t.Error(err)
	}
}
