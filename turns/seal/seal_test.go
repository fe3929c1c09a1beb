package seal

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

var update = flag.Bool("update", false, "write golden files that are missing; one that is there is never written over")

// The keys of the golden files: bytes 0 to 31, and 32 to 63.
func goldenKey(n byte) (k Key) {
	for i := range k {
		k[i] = 32*n + byte(i)
	}
	return k
}

func goldenID(n byte) turns.ID { return turns.ID{0x01, 0x9a, 15: n} }

func goldenRing() ring {
	r := ring{}
	for n := range byte(2) {
		k := goldenKey(n)
		r[goldenID(n+1)] = &k
	}
	return r
}

// ring is a keyring in memory; nil: the key was destroyed.
type ring map[turns.ID]*Key

// Content implements [Keyring].
func (r ring) Content(id turns.ID) (Content, error) {
	k, ok := r[id]
	switch {
	case !ok:
		return Content{}, ErrNoKey
	case k == nil:
		return Content{}, turns.ErrErased
	}
	return k.Content(), nil
}

// newRing has a random key for each id.
func newRing(ids ...turns.ID) ring {
	r := ring{}
	for _, id := range ids {
		k := new(Key)
		rand.Read(k[:])
		r[id] = k
	}
	return r
}

func idOf(n int) turns.ID { return turns.ID{2, byte(n >> 8), byte(n)} }

func turnEvent() *turns.Event {
	return &turns.Event{Version: 1, Kind: turns.KindTurn, ID: goldenID(7), Chain: turns.SessionChain(goldenID(1)), Index: 1,
		Prev: turns.HashEvent(nil), Recorded: 1_790_000_000_000_000_000, Depth: 1, Segment: goldenID(7), Halves: 1}
}

// bytesEvent is an event of a kind whose body has no parts: any bytes can be sealed into it.
func bytesEvent() *turns.Event {
	e := turnEvent()
	e.Kind, e.Depth, e.Segment, e.Halves = turns.KindMoved, 0, turns.ID{}, 0
	return e
}

func turnBody(t testing.TB, text string) (*turns.TurnBody, []byte) {
	body := &turns.TurnBody{Messages: []turns.Message{turns.TextMessage(turns.User, text)}}
	b, err := turns.EncodeBody(body)
	if err != nil {
		t.Fatal(err)
	}
	return body, b
}

// TestGoldenSealedEventsOpen: events that were sealed once open for ever.
func TestGoldenSealedEventsOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		ring bool
		keys []turns.ID
		enc  turns.Encoding
	}{
		"sealed":          {"hi", true, []turns.ID{goldenID(1)}, turns.Sealed},
		"sealed-two-keys": {"hi", true, []turns.ID{goldenID(1), goldenID(2)}, turns.Sealed},
		"sealed-zstd":     {strings.Repeat("all work and no play ", 50), true, []turns.ID{goldenID(1)}, turns.Sealed | turns.Zstd},
		"zstd":            {strings.Repeat("all work and no play ", 50), false, nil, turns.Zstd},
	} {
		t.Run(name, func(t *testing.T) {
			path := "../testdata/golden/" + name + ".txt"
			want, body := turnBody(t, tt.text)
			ring := Keyring(goldenRing())
			if _, err := os.Stat(path); err != nil && *update {
				e, r := turnEvent(), ring
				if !tt.ring {
					r = nil
				}
				if err := Seal(e, body, r, tt.keys, bytes.NewReader(bytes.Repeat([]byte{0x4e}, crypt.NonceSize))); err != nil {
					t.Fatal(err)
				}
				writeGolden(t, path, e)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(text), "payload\n")
			digits, _, _ := strings.Cut(rest, "event\n")
			payload, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
			if err != nil {
				t.Fatal(err)
			}
			e, err := turns.Decode(payload)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.keys, e.Keys); d != "" || e.Encoding != tt.enc {
				t.Errorf("encoding %d, keys %s", e.Encoding, d)
			}
			b, err := Open(e, ring)
			if err != nil {
				t.Fatal(err)
			}
			got := new(turns.TurnBody)
			if err := turns.DecodeBody(b, got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			again := turnEvent()
			if tt.enc == turns.Sealed { // what zstd makes of a body may change with its version
				if err := Seal(again, body, ring, tt.keys, bytes.NewReader(e.Body)); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(e, again); d != "" {
					t.Errorf("sealed again (-file +now)\n%s", d)
				}
			}
		})
	}
}

func writeGolden(t *testing.T, path string, e *turns.Event) {
	p, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	d, err := cbor.Diagnose(p)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "hash %s\npayload\n", turns.HashEvent(p))
	for rest := p; len(rest) > 0; rest = rest[min(32, len(rest)):] {
		fmt.Fprintf(&b, "%x\n", rest[:min(32, len(rest))])
	}
	fmt.Fprintf(&b, "event\n%s\n", d)
	if e.Encoding == 0 {
		t.Fatal("nothing was done to the body")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDerivedKeysNeverChange: derived keys and digests are part of the format.
func TestDerivedKeysNeverChange(t *testing.T) {
	k := goldenKey(0)
	e := turnEvent()
	e.Index, e.Keys = 300, []turns.ID{goldenID(1), goldenID(2)}
	two, err := eventKey(e, goldenRing())
	if err != nil {
		t.Fatal(err)
	}
	blob, err := SealBlob(BlobDigest(k, []byte("hi")), []byte("hi"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"body key": hexKey(k.derive(bodyKey)), "request key": hexKey(k.derive(requestKey)), "blob key": hexKey(Key(BlobDigest(k, []byte("hi"))).derive(blobKey)), "blob address": BlobAddress(BlobDigest(k, []byte("hi"))).String(),
		"blob digest key": hexKey(k.derive(blobDigestKey)), "blob nonce key": hexKey(Key(BlobDigest(k, []byte("hi"))).derive(blobNonceKey)), "label key": hexKey(k.derive(labelKey)), "policy key": hexKey(k.derive(policyKey)), "salt key": hexKey(k.derive(saltKey)), "shared key": hexKey(k.derive(sharedKey)), "successor key": hexKey(k.derive(successorKey)), "event 300": hexKey(k.event(300)), "event 1": hexKey(k.event(1)),
		"salt 2": salter{key: k}.salt(2).String(), "stored digest": storedDigest(k, RequestDigest("turn.append", []byte(`{"a":1}`))).String(), "channel key": hexKey(k.derive(channelKey)), "combined": hexKey(two),
		"request": RequestDigest("turn.append", []byte(`{"a":1}`)).String(), "blob digest": BlobDigest(k, []byte("hi")).String(),
		"policy name": PolicyName(k, "acme", "mine").String(), "label": LabelDigest(k, "acme", "coder", "telegram"), "label, no key": LabelDigest(Key{}, "acme", "coder", "telegram"),
		"blob": hex.EncodeToString(blob), "agent key": hexKey(k.derive(agentKey)), "memory key": hexKey(k.derive(memoryKey)),
		"agent key id": AgentKeyID(k, "acme", "coder").String(), "memory": MemoryText(k, turns.Daily, false, turns.ID{}, "a  b.\n").String(),
		"memory, private": MemoryText(k, turns.Daily, true, turns.ID{}, "a b").String(), "memory, branch": MemoryText(k, turns.Daily, false, goldenID(1), "a b").String(),
		"document": DocumentText(k, "a b").String(),
	}
	chain, key := ChannelDigest(k, "acme", "coder", "telegram")
	got["channel"] = chain + " " + key.String()
	if d := cmp.Diff(frozen(t, "derived.json"), got); d != "" {
		t.Errorf("(-frozen +now)\n%s", d)
	}
	seen := map[string]string{}
	for name, v := range got {
		if other, ok := seen[v]; ok {
			t.Errorf("%s and %s are equal", name, other)
		}
		seen[v] = name
	}
}

func hexKey(k Key) string { return hex.EncodeToString(k[:]) }

// TestOnlyWhatWasSealedOpens: what is sealed opens; any other key, byte or header does not.
func TestOnlyWhatWasSealedOpens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 300), rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 100, 2000)).Draw(t, "body")
		var keys []turns.ID
		for n := range rapid.IntRange(1, 4).Draw(t, "keys") {
			keys = append(keys, idOf(n))
			if n == 0 {
				keys[0] = goldenID(1) // the session's
			}
		}
		ring := newRing(keys...)
		given := append(slices.Clone(keys), keys...) // the rest in any order, and twice
		slices.Reverse(given[1:])
		e := bytesEvent()
		if err := Seal(e, body, ring, given, rand.Reader); err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		if len(e.Keys) != len(keys) || e.Encoding&turns.Sealed == 0 || len(e.Body) > len(body)+crypt.NonceSize+crypt.TagSize || len(body) > 20 && bytes.Contains(e.Body, body) {
			t.Fatalf("keys %v, encoding %d, %d bytes of %d", e.Keys, e.Encoding, len(e.Body), len(body))
		}
		got, err := Open(e, ring)
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("Open: %x, %v", got, err)
		}
		corrupt := func(what string, e *turns.Event, ring Keyring) {
			if _, err := Open(e, ring); !errors.Is(err, turns.ErrCorrupt) {
				t.Fatalf("%s: %v, want ErrCorrupt", what, err)
			}
		}
		altered := *e
		altered.Body = bytes.Clone(e.Body)
		altered.Body[rapid.IntRange(0, len(e.Body)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "xor"))
		corrupt("altered", &altered, ring)
		short := *e
		short.Body = e.Body[:rapid.IntRange(0, len(e.Body)-1).Draw(t, "cut")]
		corrupt("cut", &short, ring)
		for i, change := range []func(e *turns.Event){
			func(e *turns.Event) { e.ID = idOf(99) }, func(e *turns.Event) { e.Index++ }, func(e *turns.Event) { e.Actor = "x/y" },
			func(e *turns.Event) { e.Encoding ^= turns.Zstd }, func(e *turns.Event) { e.Tokens.Messages++ }, func(e *turns.Event) { e.Prev[0]++ },
		} {
			moved := *e
			change(&moved)
			corrupt(fmt.Sprint("header ", i), &moved, ring)
		}
		corrupt("another key", e, newRing(keys...))
		if got, err := OpenCommitted(e, ring); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("OpenCommitted: %x, %v", got, err)
		}
		own, err := eventKey(e, ring)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkCommitment(e, append(bytes.Clone(body), 0), own); !errors.Is(err, turns.ErrCorrupt) {
			t.Fatalf("a byte more has the same commitment: %v", err)
		}
		ring[rapid.SampledFrom(keys).Draw(t, "destroyed")] = nil
		if _, err := Open(e, ring); !errors.Is(err, turns.ErrErased) {
			t.Fatalf("after one key of %d is destroyed: %v", len(keys), err)
		}
		if _, err := Open(e, newRing()); !errors.Is(err, ErrNoKey) {
			t.Fatalf("no key: %v", err)
		}
		if _, err := Open(e, nil); !errors.Is(err, ErrNoKey) {
			t.Fatalf("no ring: %v", err)
		}

		k, err := NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		digest := BlobDigest(k, body)
		sealed, err := SealBlob(digest, body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := OpenBlob(digest, sealed); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("OpenBlob: %x, %v", got, err)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "blob at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "blob xor"))
		other := digest
		other[0]++
		for what, try := range map[string]func() ([]byte, error){
			"altered":        func() ([]byte, error) { return OpenBlob(digest, bad) },
			"another digest": func() ([]byte, error) { return OpenBlob(other, sealed) },
			"nothing":        func() ([]byte, error) { return OpenBlob(digest, nil) },
			"another tree":   func() ([]byte, error) { return nil, CheckBlob(Key{1}, digest, body) },
			"other content":  func() ([]byte, error) { return nil, CheckBlob(k, digest, append(bytes.Clone(body), 0)) },
		} {
			if _, err := try(); !errors.Is(err, turns.ErrCorrupt) && !(what == "altered" && errors.Is(err, turns.ErrUnsupported)) {
				t.Fatalf("blob, %s: %v", what, err)
			}
		}
	})
}

func TestSealWithoutAKeyStoresAPlainBody(t *testing.T) {
	for _, body := range [][]byte{[]byte("short"), bytes.Repeat([]byte("long "), 100)} {
		e := bytesEvent()
		if err := Seal(e, body, nil, []turns.ID{goldenID(1)}, nil); err != nil {
			t.Fatal(err)
		}
		if e.Keys != nil || e.Encoding&turns.Sealed != 0 || e.Validate() != nil || len(e.Body) > len(body) {
			t.Errorf("%+v", e)
		}
		got, err := Open(e, nil)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("Open: %q, %v", got, err)
		}
		clear(got)
		clear(body)
		if again, err := Open(e, nil); err != nil || bytes.Equal(again, got) {
			t.Errorf("what Seal was given or Open gave is e's memory: %v", err)
		}
	}
}

func TestSealRefusesWhatItCannotSeal(t *testing.T) {
	ring := goldenRing()
	one := []turns.ID{goldenID(1)}
	for name, tt := range map[string]struct {
		body []byte
		keys []turns.ID
		rand []byte
		want error
	}{
		"no keys": {[]byte{0xa0}, nil, make([]byte, 12), turns.ErrMalformed},
		"too many keys": {[]byte{0xa0}, func() (ids []turns.ID) {
			for n := range turns.MaxKeys + 1 {
				ids = append(ids, idOf(n))
			}
			return ids
		}(), make([]byte, 12), turns.ErrMalformed},
		"unknown key":   {[]byte{0xa0}, []turns.ID{goldenID(9)}, make([]byte, 12), ErrNoKey},
		"too large":     {make([]byte, turns.MaxBody+1), one, make([]byte, 12), turns.ErrTooLarge},
		"no randomness": {[]byte{0xa0}, one, make([]byte, 11), nil},
	} {
		e := bytesEvent()
		err := Seal(e, tt.body, ring, tt.keys, bytes.NewReader(tt.rand))
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if d := cmp.Diff(bytesEvent(), e); d != "" {
			t.Errorf("%s changed the event:\n%s", name, d)
		}
	}
	if _, err := SealBlob(turns.Hash{}, make([]byte, turns.MaxBody+1)); !errors.Is(err, turns.ErrTooLarge) {
		t.Errorf("blob too large: %v", err)
	}
}

// TestBodyOverTheLimitIsRefusedWhenDecompressed: a body that announces or holds more than the limit is refused.
func TestBodyOverTheLimitIsRefusedWhenDecompressed(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	frame := w.EncodeAll(make([]byte, turns.MaxBody/2+1), nil)
	var stream bytes.Buffer // a stream's frame does not announce its size
	sw, err := zstd.NewWriter(&stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sw.Write(make([]byte, turns.MaxBody+1)); err != nil {
		t.Fatal(err)
	}
	if err := sw.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		b    []byte
		want error
	}{
		"one frame":     {w.EncodeAll(make([]byte, turns.MaxBody+1), nil), turns.ErrTooLarge},
		"two frames":    {append(bytes.Clone(frame), frame...), turns.ErrCorrupt},
		"stream":        {stream.Bytes(), turns.ErrTooLarge},
		"4 GiB claimed": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0}, turns.ErrTooLarge},
		"garbage":       {[]byte("garbage"), turns.ErrCorrupt},
		"cut":           {frame[:len(frame)/2], turns.ErrCorrupt},
	} {
		e := turnEvent()
		e.Encoding, e.Body = turns.Zstd, tt.b
		if _, err := Open(e, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s (%d bytes): %v, want %v", name, len(tt.b), err, tt.want)
		}
	}
	e := turnEvent()
	e.Encoding, e.Body = turns.Zstd, w.EncodeAll(make([]byte, turns.MaxBody), nil)
	if b, err := Open(e, nil); err != nil || len(b) != turns.MaxBody {
		t.Errorf("the largest body: %d bytes, %v", len(b), err)
	}
	e.Encoding, e.Body = 0, make([]byte, turns.MaxBody)
	if b, err := Open(e, nil); err != nil || len(b) != turns.MaxBody {
		t.Errorf("the largest body, not compressed: %d bytes, %v", len(b), err)
	}
	e.Body = make([]byte, turns.MaxBody+1)
	if _, err := Open(e, nil); !errors.Is(err, turns.ErrTooLarge) {
		t.Errorf("one byte more, not compressed: %v", err)
	}
	e.Encoding = 4
	if _, err := Open(e, nil); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("unknown encoding: %v", err)
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	k := goldenKey(1)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, k); s != "key" {
			t.Errorf("%s prints %s", format, s)
		}
	}
}

func FuzzOpen(f *testing.F) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(w.EncodeAll([]byte("hello hello hello hello"), nil), byte(1))
	f.Add(make([]byte, 40), byte(3))
	ring := goldenRing()
	f.Fuzz(func(t *testing.T, b []byte, enc byte) {
		e := turnEvent()
		e.Encoding, e.Body, e.Keys = turns.Encoding(enc), b, []turns.ID{goldenID(1)}
		if got, err := Open(e, ring); err != nil && !errors.Is(err, turns.ErrCorrupt) && !errors.Is(err, turns.ErrTooLarge) && !errors.Is(err, turns.ErrUnsupported) ||
			err == nil && enc&2 != 0 || len(got) > turns.MaxBody {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if got, err := OpenBlob(turns.Hash{}, b); err == nil {
			t.Fatalf("a blob opens: %x", got)
		}
	})
}

func benchBody(b *testing.B) []byte {
	text := strings.Repeat("Some words of a user, then other ones; ", 20)
	noise := make([]byte, 600)
	if _, err := rand.Read(noise); err != nil {
		b.Fatal(err)
	}
	_, body := turnBody(b, text+hex.EncodeToString(noise))
	return body
}

func BenchmarkSeal(b *testing.B) {
	body, ring := benchBody(b), goldenRing()
	for n := 1; n <= 2; n++ {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Seal(turnEvent(), body, ring, []turns.ID{goldenID(1), goldenID(2)}[:n], rand.Reader); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	body, ring := benchBody(b), goldenRing()
	e := turnEvent()
	if err := Seal(e, body, ring, []turns.ID{goldenID(1)}, rand.Reader); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(e, ring); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	k := goldenKey(0)
	b.ReportAllocs()
	for b.Loop() {
		crypt.AEAD(k.derive(bodyKey))
	}
}

// A blob's nonce follows from what is encrypted: the same bytes have the same one, and the same
// content that another build compresses in another way has another.
func TestTheNonceOfABlobFollowsFromWhatIsEncrypted(t *testing.T) {
	k := goldenKey(1)
	digest := BlobDigest(k, []byte("content"))
	nonce := func(packed string) string {
		sealed, err := SealBlob(digest, []byte(packed)) // stands for what a compressor made of the content
		if err != nil {
			t.Fatal(err)
		}
		return string(sealed[1 : 1+crypt.NonceSize])
	}
	if first := nonce("packed"); first != nonce("packed") {
		t.Error("the same bytes are sealed in two ways")
	}
	if a, b := nonce("packed"), nonce("Packed"); a == b || a == string(digest[:crypt.NonceSize]) {
		t.Errorf("two plaintexts under one key have the nonces %x and %x", a, b)
	}
}

// The shortest contents have more bytes of seal than of their own.
func TestShortestBlobsOpen(t *testing.T) {
	for n := range 5 {
		k, content := goldenKey(1), make([]byte, n)
		digest := BlobDigest(k, content)
		sealed, err := SealBlob(digest, content)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := OpenBlob(digest, sealed); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: opened %x, %v", n, got, err)
		}
	}
}

func TestOpenNamesTheSizeThatASealNeeds(t *testing.T) {
	e := turnEvent()
	e.Encoding, e.Keys, e.Body = turns.Sealed, []turns.ID{{1}}, make([]byte, 27)
	ring := newRing(turns.ID{1})
	if _, err := Open(e, ring); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "27 sealed bytes, at least 28 are needed") {
		t.Errorf("a seal without room for its nonce and tag: %v", err)
	}
}

// The digest of content in pieces is that of the content.
func TestBlobDigestOfPiecesIsThatOfTheWhole(t *testing.T) {
	k, content := Key{1, 2, 3}, []byte(strings.Repeat("0123456789", 1000))
	h := NewBlobDigest(k, uint64(len(content)))
	for i := 0; i < len(content); i += 3000 {
		h.Write(content[i:min(i+3000, len(content))])
	}
	if got, want := turns.Hash(h.Sum(nil)), BlobDigest(k, content); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if h := NewBlobDigest(k, uint64(len(content))+1); turns.Hash(h.Sum(content)) == BlobDigest(k, content) {
		t.Error("another size has the same digest")
	}
}

// Bodies are compressed in memory that the next one uses again. None of it is in an event,
// and no content stays in it.
func TestSealedBodiesShareNoMemory(t *testing.T) {
	id := turns.ID{15: 1}
	ring := newRing(id)
	text := func(n, size int) []byte {
		return bytes.Repeat(fmt.Appendf(nil, "turn %d says this. ", n), size/16)
	}
	for _, ring := range []Keyring{ring, nil} {
		var events []*turns.Event
		sizes := []int{16, 200, 4 << 10, maxScratch, maxScratch + 16, 100 << 10}
		for n, size := range sizes {
			e := &turns.Event{Version: turns.Version, Kind: turns.KindMoved}
			body := text(n, size)
			if err := Seal(e, body, ring, []turns.ID{id}, rand.Reader); err != nil {
				t.Fatal(err)
			}
			clear(body) // the caller's
			events = append(events, e)
		}
		for n, e := range events {
			if got, err := Open(e, ring); err != nil || !bytes.Equal(got, text(n, sizes[n])) {
				t.Errorf("body %d, sealed %v: %.40q, %v", n, ring != nil, got, err)
			}
		}
	}
	buffer := scratch.Get().(*[maxScratch]byte)
	if *buffer != [maxScratch]byte{} {
		t.Error("the memory holds content")
	}
}

// A derived key is HKDF as the library computes it, and deriving allocates nothing.
func TestDerivedKeysAreThoseOfTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Key(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		p := purpose(rapid.StringN(0, 40, 40).Draw(t, "purpose"))
		if got, want := k.derive(p), Key(crypt.Expand(k[:], string(p))); got != want {
			t.Errorf("derive(%q) of %x is %x, the library says %x", p, k[:], got[:], want[:])
		}
	})
	k := goldenKey(1)
	for _, p := range []purpose{combinedKey, bodyKey, saltKey, sharedKey, successorKey, requestKey, blobKey, blobDigestKey, labelKey, policyKey, agentKey, memoryKey, channelKey} {
		if n := testing.AllocsPerRun(10, func() { k = k.derive(p) }); n > 0 {
			t.Errorf("%s: %v allocations", p, n)
		}
	}
}

// TestABodyIsOneFrame: a reader that stops behind the first frame would find another body than one that goes on.
func TestABodyIsOneFrame(t *testing.T) {
	for _, n := range []int{64, 1000, 300_000} {
		frame, enc := compress(nil, bytes.Repeat([]byte("0123456789"), n))
		if b, err := decompress(enc, frame); err != nil || len(b) != 10*n {
			t.Fatal(len(b), err)
		}
		skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7}
		for name, packed := range map[string][]byte{
			"two frames":      slices.Concat(frame, frame),
			"a skippable one": slices.Concat(frame, skippable),
			"one before":      slices.Concat(skippable, frame),
			"a byte behind":   slices.Concat(frame, []byte{0}),
			"a byte less":     frame[:len(frame)-1],
			"a head alone":    frame[:6],
			"nothing":         {},
		} {
			if b, err := decompress(turns.Zstd, packed); !errors.Is(err, turns.ErrCorrupt) {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
	}
}
