package blocks

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
	"nexus/ledger/ledgertest"
)

// sizes are those of payloads, over several blocks of 8 MiB.
var sizes = []int{0, 1, 1 << 10, 1 << 20, 0, 8<<20 - 1024, 1, 3 << 20, 5 << 20, 1 << 20, 1 << 10, 0, 8 << 20, 7}

// large returns messages of these sizes. The largest has no header: with one it would be too large.
func large() []message {
	m := messages(true, sizes...)
	m[12].header = nil
	return m
}

func TestCheckReportsWhatTheServerHolds(t *testing.T) {
	s, sent := start(t, t.TempDir()), large()
	equalServer(t, s, killed(t, s), nil) // an empty stream
	s.publish(t, sent...)
	if n := len(check(t, killed(t, s), Options{}).Blocks); n < 4 {
		t.Errorf("%d blocks, want several", n)
	}
	equalServer(t, s, killed(t, s), sent)
	s.stop(t)
	dir := copied(t, s.folder())
	if x := check(t, dir, Options{}).Index; x != (Index{Use: Current, First: 1, Last: uint64(len(sent)), Records: uint64(len(sent))}) {
		t.Errorf("index after a clean stop: %+v", x)
	}
	s = start(t, s.data)
	equalServer(t, s, dir, sent)
	s.publish(t, messages(false, 10)...)
	if x := check(t, copied(t, s.folder()), Options{}).Index; x.Use != Stale || x.Last != uint64(len(sent)) {
		t.Errorf("index after one more record: %+v", x)
	}
}

func TestCheckWritesNothing(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	dir := killed(t, s)
	block := filepath.Join(dir, msgsDir, "2.blk")
	b, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(block, b, 0o600); err != nil {
		t.Fatal(err)
	}
	tree := func() map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				out[path] = "folder"
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			out[path] = info.ModTime().String() + string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := tree()
	if err := check(t, dir, Options{}).Err(); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("%v, want corrupt", err)
	}
	if d := cmp.Diff(before, tree()); d != "" {
		t.Error(d)
	}
}

// The blocks of the linked server are the bytes that encode writes: a server with
// another format fails here.
func TestTheFormatIsThatOfTheLinkedServer(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(true)...)
	dir := killed(t, s)
	files := map[string][]byte{}
	for _, r := range all(t, dir, 0) {
		files[blockPath(r.Block)] = append(files[blockPath(r.Block)], encode(r)...)
	}
	if len(files) < 3 {
		t.Fatalf("%d blocks", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s of NATS server %s is not in the format that this package reads", name, s.conn.ConnectedServerVersion())
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, msgsDir))
	if err != nil || len(entries) != len(files) {
		t.Errorf("%d files in %s, %v; want %d", len(entries), msgsDir, err, len(files))
	}
}

// An encoder writes the records of a folder as the server wrote them.
func TestEncoderWritesWhatTheServerWrites(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	s.stop(t)
	written := make(map[uint32][]byte)
	for _, r := range all(t, s.folder(), 0) {
		e, err := NewEncoder(streamName, r.Block)
		if err != nil {
			t.Fatal(err)
		}
		before := len(written[r.Block])
		if written[r.Block], err = e.Append(written[r.Block], r); err != nil {
			t.Fatal(err)
		}
		if n := int64(len(written[r.Block]) - before); n != r.Bytes || n != r.Size() {
			t.Fatalf("record %d is encoded in %d bytes, Size says %d, the server wrote %d", r.Seq, n, r.Size(), r.Bytes)
		}
	}
	if len(written) < 2 {
		t.Fatalf("%d blocks", len(written))
	}
	for number, b := range written {
		if on, err := os.ReadFile(filepath.Join(s.folder(), Path(number))); err != nil || !bytes.Equal(on, b) {
			t.Errorf("block %d differs from the server's (%v)", number, err)
		}
	}
}

func TestAStagedBatchIsNoDamage(t *testing.T) {
	s := start(t, t.TempDir(), func(c *js.StreamConfig) { c.AllowAtomicPublish = true })
	s.publish(t, messages(false, 5, 6)...)
	for _, seq := range []string{"1", "2"} {
		m := &nats.Msg{Subject: "a.b", Header: nats.Header{"Nats-Batch-Id": {"B"}, "Nats-Batch-Sequence": {seq}}, Data: []byte("staged")}
		if _, err := s.conn.RequestMsgWithContext(ledgertest.Within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	r := check(t, killed(t, s), Options{Acked: 2})
	if r.Err() != nil || r.Torn != nil || r.Last != 2 || len(r.Batches) != 1 {
		t.Errorf("%+v, torn %+v, damage %v", r, r.Torn, r.Err())
	}
	m := &nats.Msg{Subject: "a.b", Header: nats.Header{"Nats-Batch-Id": {"B"}, "Nats-Batch-Sequence": {"3"}, "Nats-Batch-Commit": {"1"}}}
	if _, err := s.conn.RequestMsgWithContext(ledgertest.Within(t), m); err != nil {
		t.Fatal(err)
	}
	if r := check(t, killed(t, s), Options{Acked: 5}); r.Err() != nil || r.Last != 5 || len(r.Batches) != 0 {
		t.Errorf("after the commit: %+v, damage %v", r, r.Err())
	}
}

func TestCheckFromASequenceReadsItsBlockOnly(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	dir := killed(t, s)
	whole := check(t, dir, Options{})
	third := whole.Blocks[2]
	flip(t, filepath.Join(dir, "msgs/1.blk"), 8*40)
	for _, from := range []uint64{third.First, third.First + 1, third.Last} {
		r := check(t, dir, Options{From: from, Acked: whole.Last})
		if r.Err() != nil || r.First != third.First || r.Last != whole.Last || r.Blocks[1].Records != 0 || r.Blocks[2] != third || r.Blocks[1].Size != whole.Blocks[1].Size {
			t.Errorf("from %d: %+v, %v", from, r, r.Err())
		}
		if got := all(t, dir, from); got[0].Seq != from {
			t.Errorf("records from %d begin with %d", from, got[0].Seq)
		}
	}
	if r := check(t, dir, Options{From: third.First - 1}); r.First != whole.Blocks[1].First {
		t.Errorf("it begins at %d, want block 2", r.First)
	}
	if r := check(t, dir, Options{From: 1}); !errors.Is(r.Err(), ledger.ErrCorrupt) || r.Damage[0].First != 1 {
		t.Errorf("the flip in block 1: %v", r.Err())
	}
	// The first record of the block can't be read: the block before it is read too.
	flip(t, filepath.Join(dir, "msgs/3.blk"), 8*40)
	if r := check(t, dir, Options{From: third.First}); r.First != whole.Blocks[1].First || len(r.Damage) != 1 || r.Damage[0].First != third.First {
		t.Errorf("%+v, %v", r, r.Err())
	}
}

// Each case changes the folder of a server that stopped cleanly or was killed.
func TestDamageIsNamedWithItsPlace(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	sound := killed(t, s)
	recs := all(t, sound, 0)
	blocks := check(t, sound, Options{}).Blocks
	last := recs[len(recs)-1]
	first2, last2 := recs[blocks[1].First-1], recs[blocks[1].Last-1]
	marker := func(seq uint64) []byte {
		return encode(Record{Seq: seq, Stored: last.Stored, Block: last.Block})
	}
	path := func(dir string, n uint32) string { return filepath.Join(dir, blockPath(n)) }
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		acked  uint64
		want   []Damage // without Detail
		torn   bool
	}{
		"sound": {change: func(*testing.T, string) {}, acked: last.Seq},
		"payload": {
			change: func(t *testing.T, dir string) {
				flip(t, path(dir, 2), (recs[first2.Seq].Offset+40)*8)
			},
			want: []Damage{{Kind: Checksum, File: "msgs/2.blk", Offset: recs[first2.Seq].Offset, Bytes: recs[first2.Seq].Bytes, First: first2.Seq + 1, Last: first2.Seq + 1}},
		},
		"length": {
			change: func(t *testing.T, dir string) { flip(t, path(dir, 2), 8*first2.Offset+14) },
			want:   []Damage{{Kind: Checksum, File: "msgs/2.blk", Bytes: first2.Bytes, First: first2.Seq, Last: first2.Seq}},
		},
		"length of the last record": {
			change: func(t *testing.T, dir string) { flip(t, path(dir, last.Block), 8*last.Offset+10) },
			want:   []Damage{{Kind: Length, File: blockPath(last.Block), Offset: last.Offset, Bytes: last.Bytes, First: last.Seq}},
		},
		"end of a block": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, 2), 5) },
			want:   []Damage{{Kind: Short, File: "msgs/2.blk", Offset: last2.Offset, Bytes: last2.Bytes - 5, First: last2.Seq, Last: last2.Seq}},
		},
		"record at the end of a block": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, 2), last2.Bytes) },
			want:   []Damage{{Kind: Missing, File: "msgs/3.blk", First: last2.Seq, Last: last2.Seq}},
		},
		"bytes after a block": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, 2), make([]byte, 100)) },
			want:   []Damage{{Kind: Zeros, File: "msgs/2.blk", Offset: blocks[1].Size, Bytes: 100, First: last2.Seq + 1}},
		},
		"missing block": {
			change: func(t *testing.T, dir string) { remove(t, path(dir, 2)) },
			want:   []Damage{{Kind: Missing, File: "msgs/3.blk", First: blocks[1].First, Last: blocks[1].Last}},
		},
		"empty block": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, 2), blocks[1].Size) },
			want:   []Damage{{Kind: Missing, File: "msgs/3.blk", First: blocks[1].First, Last: blocks[1].Last}},
		},
		"first block": {
			change: func(t *testing.T, dir string) { remove(t, path(dir, 1)) },
			want:   []Damage{{Kind: Missing, File: "msgs/2.blk", First: 1, Last: blocks[0].Last}},
		},
		"blocks exchanged": {
			change: func(t *testing.T, dir string) {
				if err := os.Rename(path(dir, 2), path(dir, 1)); err != nil {
					t.Fatal(err)
				}
			},
			want: []Damage{{Kind: Checksum, File: "msgs/1.blk", Bytes: blocks[1].Size, First: 1, Last: blocks[2].First - 1}},
		},
		"another block": {
			change: func(t *testing.T, dir string) { extend(t, filepath.Join(dir, "msgs/007.blk"), nil) },
			want:   []Damage{{Kind: File, File: "msgs/007.blk"}},
		},
		"a purge that was begun": {
			change: func(t *testing.T, dir string) {
				if err := os.Mkdir(filepath.Join(dir, "__msgs__"), 0o700); err != nil {
					t.Fatal(err)
				}
			},
			want: []Damage{{Kind: File, File: "__msgs__"}},
		},
		"no folder of messages": {
			change: func(t *testing.T, dir string) {
				if err := os.RemoveAll(filepath.Join(dir, msgsDir)); err != nil {
					t.Fatal(err)
				}
			},
			want: []Damage{{Kind: File, File: msgsDir}},
		},
		"delete marker": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, last.Block), marker(3|tombstoneFlag)) },
			acked:  last.Seq,
			want:   []Damage{{Kind: Tombstone, File: blockPath(last.Block), Offset: last.Offset + last.Bytes, First: 3, Last: 3}},
		},
		"erased record": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, last.Block), marker(last.Seq+1|erasedFlag)) },
			acked:  last.Seq + 1,
			want:   []Damage{{Kind: Erased, File: blockPath(last.Block), Offset: last.Offset + last.Bytes, First: last.Seq + 1, Last: last.Seq + 1}},
		},
		"repeated record": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, last.Block), encode(last)) },
			want:   []Damage{{Kind: Repeated, File: blockPath(last.Block), Offset: last.Offset + last.Bytes, First: last.Seq, Last: last.Seq}},
		},
		"bytes that no write leaves": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, last.Block), bytes.Repeat([]byte{7}, 100)) },
			acked:  last.Seq,
			want:   []Damage{{Kind: Length, File: blockPath(last.Block), Offset: last.Offset + last.Bytes, Bytes: 100, First: last.Seq + 1}},
		},
		"bytes between records": {
			change: func(t *testing.T, dir string) {
				next := last
				next.Seq++
				extend(t, path(dir, last.Block), append(bytes.Repeat([]byte{7}, 100), encode(next)...))
			},
			acked: last.Seq,
			want:  []Damage{{Kind: Bytes, File: blockPath(last.Block), Offset: last.Offset + last.Bytes, Bytes: 100}},
		},
		"acknowledged and missing": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, last.Block), last.Bytes) },
			acked:  last.Seq + 1,
			want:   []Damage{{Kind: Missing, File: blockPath(last.Block), Offset: last.Offset, First: last.Seq, Last: last.Seq + 1}},
		},
		"acknowledged and torn": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, last.Block), 1) },
			acked:  last.Seq,
			want:   []Damage{{Kind: Short, File: blockPath(last.Block), Offset: last.Offset, Bytes: last.Bytes - 1, First: last.Seq, Last: last.Seq}},
		},
		"torn": {
			change: func(t *testing.T, dir string) { shorten(t, path(dir, last.Block), 1) },
			acked:  last.Seq - 1, torn: true,
		},
		"a tail of zeros": {
			change: func(t *testing.T, dir string) { extend(t, path(dir, last.Block), make([]byte, 5000)) },
			acked:  last.Seq, torn: true,
		},
		"meta.inf": {
			change: func(t *testing.T, dir string) { flip(t, filepath.Join(dir, metaFile), 100) },
			acked:  last.Seq, want: []Damage{{Kind: Meta, File: metaFile}},
		},
		"meta.sum": {
			change: func(t *testing.T, dir string) { flip(t, filepath.Join(dir, sumFile), 7) },
			acked:  last.Seq, want: []Damage{{Kind: Meta, File: metaFile}},
		},
		"no meta.inf": {
			change: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, metaFile)) },
			acked:  last.Seq, want: []Damage{{Kind: Meta, File: metaFile}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, sound)
			c.change(t, dir)
			r := check(t, dir, Options{Acked: c.acked})
			var got []Damage
			for _, d := range r.Damage {
				without := *d
				without.Detail = ""
				got = append(got, without)
				if !errors.Is(d, ledger.ErrCorrupt) || !strings.HasPrefix(d.Error(), d.File) {
					t.Errorf("error %v", d)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" || (r.Torn != nil) != c.torn {
				t.Errorf("%s; torn %+v, want %v", d, r.Torn, c.torn)
			}
		})
	}
}

func TestARefusedRecordIsDamage(t *testing.T) {
	s := start(t, t.TempDir())
	s.publish(t, messages(false, 1, 2, 3)...)
	r := check(t, killed(t, s), Options{Valid: func(r Record) error {
		if len(r.Payload) == 2 {
			return errors.New("two")
		}
		return nil
	}})
	if len(r.Damage) != 1 || r.Damage[0].Kind != Refused || r.Damage[0].First != 2 || r.Records != 2 || !strings.Contains(r.Err().Error(), "two") {
		t.Errorf("%+v, %v", r, r.Err())
	}
}

func TestErrorsOfTheFileSystemAreNoDamage(t *testing.T) {
	if _, err := Check(context.Background(), filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("a folder that is not there: %v", err)
	}
	s := start(t, t.TempDir())
	s.publish(t, messages(false, 1)...)
	dir := killed(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Check(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
	for _, name := range []string{"meta.key", "msgs/1.key"} {
		extend(t, filepath.Join(dir, name), nil)
		if _, err := Check(context.Background(), dir, Options{}); !errors.Is(err, ledger.ErrUnsupported) {
			t.Errorf("%s: %v, want unsupported", name, err)
		}
		remove(t, filepath.Join(dir, name))
	}
	compressed := start(t, t.TempDir(), func(c *js.StreamConfig) { c.Compression = js.S2Compression })
	if _, err := Check(context.Background(), compressed.folder(), Options{}); !errors.Is(err, ledger.ErrUnsupported) {
		t.Errorf("a compressed stream: %v, want unsupported", err)
	}
}

// What Check reports as damage before, the server makes unnoticed: it truncates the block and
// uses the sequences again. What Check reports as torn, it takes off as Check says.
func TestTheServerTruncatesWhatCheckReports(t *testing.T) {
	s := start(t, t.TempDir(), smallBlocks)
	s.publish(t, small(false)...)
	sound := killed(t, s)
	recs := all(t, sound, 0)
	last := recs[len(recs)-1]
	s.stop(t)
	reopen := func(dir string) *server {
		data := t.TempDir()
		again := &server{data: data}
		if err := os.CopyFS(again.folder(), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		return start(t, data)
	}
	dir := copied(t, sound)
	flip(t, filepath.Join(dir, blockPath(last.Block)), 8*40) // its first record
	r := check(t, dir, Options{Acked: last.Seq})
	if len(r.Damage) != 1 {
		t.Fatalf("%v", r.Err())
	}
	again := reopen(dir)
	if got := again.stream.CachedInfo().State.LastSeq; got != r.Damage[0].First-1 {
		t.Errorf("the server ends at %d; want it to forget %d to %d", got, r.Damage[0].First, last.Seq)
	}
	again.stop(t)

	dir = copied(t, sound)
	shorten(t, filepath.Join(dir, blockPath(last.Block)), 3)
	if r = check(t, dir, Options{Acked: last.Seq - 1}); r.Torn == nil || r.Err() != nil {
		t.Fatalf("%+v, %v", r.Torn, r.Err())
	}
	again = reopen(dir)
	if got := again.stream.CachedInfo().State.LastSeq; got != r.Torn.Seq-1 {
		t.Errorf("the server ends at %d, want %d", got, r.Torn.Seq-1)
	}
	if info, err := os.Stat(filepath.Join(again.folder(), blockPath(last.Block))); err != nil || info.Size() != r.Torn.Offset {
		t.Errorf("the block has %d bytes, %v; want %d", info.Size(), err, r.Torn.Offset)
	}
}

func flip(t testing.TB, name string, bit int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, bit/8)
	b[0] ^= 1 << (bit % 8)
	_, werr := f.WriteAt(b, bit/8)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func shorten(t testing.TB, name string, by int64) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-by); err != nil {
		t.Fatal(err)
	}
}

func extend(t testing.TB, name string, by []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(by)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// What a sound index.db lists was acknowledged.
func TestWhatTheIndexListsAndIsMissingIsDamage(t *testing.T) {
	s := start(t, t.TempDir())
	s.publish(t, messages(false, 5, 600)...)
	s.stop(t)
	recs := all(t, s.folder(), 0)
	last := recs[len(recs)-1]
	for by, want := range map[int64]Damage{
		1:          {Kind: Short, File: "msgs/1.blk", Offset: last.Offset, Bytes: last.Bytes - 1, First: 2, Last: 2, Detail: "index.db lists it"},
		last.Bytes: {Kind: Missing, File: "msgs/1.blk", Offset: last.Offset, First: 2, Last: 2, Detail: "index.db lists it"},
	} {
		dir := copied(t, s.folder())
		shorten(t, filepath.Join(dir, blockPath(1)), by)
		r := check(t, dir, Options{})
		if len(r.Damage) != 1 || *r.Damage[0] != want || r.Torn != nil || r.Index.Use != Stale || r.Index.Last != 2 {
			t.Errorf("%d bytes shorter: %v, torn %+v, index %+v", by, r.Err(), r.Torn, r.Index)
		}
		extend(t, filepath.Join(dir, msgsDir, indexFile), []byte{0})
		if r := check(t, dir, Options{}); r.Err() != nil || r.Index != (Index{Use: Unreadable}) {
			t.Errorf("%d bytes shorter, index.db damaged: %v, index %+v", by, r.Err(), r.Index)
		}
	}
}

func TestDamageSaysWhereAndWhich(t *testing.T) {
	for want, d := range map[string]Damage{
		"meta.inf at 0: meta: the file is missing":                   {Kind: Meta, File: metaFile, Detail: "the file is missing"},
		"msgs/1.blk at 7, 100 bytes, record 3: checksum":             {Kind: Checksum, File: "msgs/1.blk", Offset: 7, Bytes: 100, First: 3, Last: 3},
		"msgs/1.blk at 0, records from 3: zeros":                     {Kind: Zeros, File: "msgs/1.blk", First: 3},
		"msgs/1.blk at 0, records 3 to 5: missing: record 6 follows": {Kind: Missing, File: "msgs/1.blk", First: 3, Last: 5, Detail: "record 6 follows"},
	} {
		if got := d.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A server that opens an empty stream after a kill removes its block, and goes on with
// the next number.
func TestAMissingNumberIsNoDamage(t *testing.T) {
	first, data := start(t, t.TempDir()), t.TempDir()
	if err := os.CopyFS(data, os.DirFS(first.data)); err != nil {
		t.Fatal(err)
	}
	again := start(t, data)
	again.publish(t, small(false)...)
	dir := killed(t, again)
	if r := check(t, dir, Options{}); r.Err() != nil || r.Records == 0 || r.Blocks[0].Number == 1 {
		t.Errorf("%v; blocks %+v", r.Err(), r.Blocks)
	}
}
