package tlog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// checkers runs both checkers of docs/examples, and the package's own, on files. It returns what each says, by file:
// true for accepted.
func checkers(t *testing.T, dir, key string, names []string) map[string][]bool {
	t.Helper()
	out := make(map[string][]bool)
	for _, name := range names {
		out[name] = append(out[name], verified(dir, key, name) == nil)
	}
	program := filepath.Join(dir, "verify")
	if b, err := exec.Command("go", "build", "-o", program, "../../docs/examples/go/verify").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	commands := [][]string{{program, key}}
	python := ""
	for _, p := range []string{"/usr/bin/python3", "python3"} { // Debian's has the package
		if python == "" && exec.Command(p, "-c", "import cryptography").Run() == nil {
			python = p
		}
	}
	if python == "" {
		t.Log("the checker in Python is not tried: python3 or its cryptography is missing")
	} else {
		script, err := filepath.Abs("../../docs/examples/python/verify_proof.py")
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, []string{python, script, key})
	}
	for _, c := range commands {
		for at := 0; at < len(names); at += 500 {
			run := exec.Command(c[0], append(c[1:len(c):len(c)], names[at:min(len(names), at+500)]...)...)
			run.Dir = dir
			b, err := run.Output()
			refused := new(exec.ExitError)
			if errors.As(err, &refused) && refused.ExitCode() == 1 && len(refused.Stderr) == 0 {
				if err = nil; !strings.Contains(string(b), "REFUSED") {
					t.Fatalf("%s fails without a refusal: %s", c[0], b)
				}
			} else if strings.Contains(string(b), "REFUSED") {
				t.Fatalf("%s refuses, and its exit status is 0", c[0])
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", c[0], err, b)
			}
			for line := range strings.Lines(string(b)) {
				name, verdict, _ := strings.Cut(strings.TrimSpace(line), " ")
				out[name] = append(out[name], strings.HasPrefix(verdict, "accepted"))
			}
		}
	}
	for name, said := range out {
		if len(said) != 1+len(commands) {
			t.Fatalf("%s: %v", name, said)
		}
	}
	return out
}

// verified is what the package says of the two files.
func verified(dir, key, name string) error {
	proof, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	event, err := os.ReadFile(filepath.Join(dir, name+".event"))
	if err != nil {
		return err
	}
	p, err := ParseProof(proof)
	if err != nil {
		return err
	}
	e, err := ParseEvent(event)
	if err != nil {
		return err
	}
	if _, err = p.Verify(e.Entry(), key); err != nil {
		return err
	}
	_, err = e.Verify()
	return err
}

// made is a log of sealed turns, with what each shows.
type made struct {
	key      *Key
	hashes   stored
	root     turns.Hash
	payloads [][]byte
	events   []*turns.Event
	ring     seal.Keyring
	note     []byte
}

func newMade(t *testing.T, n int) *made {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	keys := new(keyring.Memory)
	m := &made{key: newKey(t, "nexus/l/c"), hashes: stored{}, ring: keys}
	f := Frontier{}
	for i := range n {
		var session, id turns.ID
		session[15], id[14], id[15] = byte(1+i%3), byte(i>>8), byte(i)
		id[0] = 1
		if _, err := keys.Create(session, zeros{}); err != nil {
			t.Fatal(err)
		}
		body := &turns.TurnBody{}
		parts := 1 + rng.IntN(4)
		if i == 0 {
			parts = 6
		}
		for p := range parts {
			body.Messages = append(body.Messages, turns.Message{Role: "user", Parts: []turns.Part{{Type: "text", Content: fmt.Sprintf("part %d of turn %d", p, i)}}})
		}
		plain, err := turns.EncodeBody(body)
		if err != nil {
			t.Fatal(err)
		}
		e := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: id, Chain: turns.SessionChain(session), Index: uint64(1 + i), Prev: turns.Hash{1}, Recorded: 1, Depth: 1, Segment: id, Halves: 1}
		if i%2 == 0 {
			e.Sender = "U" + strings.Repeat("A", 55)
		}
		if err := seal.Seal(e, plain, keys, []turns.ID{session}, randomBytes{rng}); err != nil {
			t.Fatal(err)
		}
		payload, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.payloads, m.events = append(m.payloads, payload), append(m.events, e)
		if err := f.Append(turns.HashEvent(payload), m.hashes.set); err != nil {
			t.Fatal(err)
		}
	}
	m.root = f.Root()
	m.note, _ = m.key.Sign(Checkpoint{"nexus/l/c", uint64(n), m.root})
	return m
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

type randomBytes struct{ r *rand.Rand }

func (x randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(x.r.Uint32())
	}
	return len(b), nil
}

// proof is the proof of an event, with leaves that are shown.
func (m *made) proof(t *testing.T, i int, leaves ...int) (*Proof, *Event) {
	t.Helper()
	path, err := Inclusion(m.hashes, uint64(i), uint64(len(m.payloads)))
	if err != nil {
		t.Fatal(err)
	}
	var shown []*turns.Disclosed
	for _, l := range leaves {
		d, err := seal.Disclose(m.events[i], m.ring, l)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, d)
	}
	e, err := NewEvent(m.payloads[i], shown...)
	if err != nil {
		t.Fatal(err)
	}
	return &Proof{uint64(i), path, m.note}, e
}

func write(t *testing.T, dir, name string, proof []byte, e *Event) {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), proof, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".event"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A checker is read in one sitting before it is believed.
func TestCheckersAreShort(t *testing.T) {
	for _, name := range []string{"go/verify/verify.go", "python/verify_proof.py"} {
		b, err := os.ReadFile("../../docs/examples/" + name)
		if n := bytes.Count(b, []byte("\n")); err != nil || n > 80 {
			t.Errorf("%s has %d lines, over 80 (%v)", name, n, err)
		}
	}
}

func TestCheckersAcceptProofsOfRandomTurns(t *testing.T) {
	m, dir := newMade(t, 1000), t.TempDir()
	var names []string
	largest := 0
	for i := range 1000 {
		p, e := m.proof(t, i, []int{0, 1}[:i%3%2+i%2]...)
		name := fmt.Sprintf("t%d", i)
		write(t, dir, name, p.Encode(), e)
		names = append(names, name)
		if len(e.Leaves) == 0 {
			b, _ := e.Encode()
			largest = max(largest, len(p.Encode())+len(b))
		}
	}
	for name, said := range checkers(t, dir, m.key.Public(), names) {
		for i, ok := range said {
			if !ok {
				t.Errorf("%s: checker %d refuses it", name, i)
			}
		}
	}
	if largest > 2048 {
		t.Errorf("a proof and its header have %d bytes, over 2 KiB", largest)
	}
	t.Logf("the largest proof with its header, of 1000 turns: %d bytes", largest)
}

// A part that is shown is all that is shown: the file has nothing of the other parts, and the salts of
// theirs can't be made from it.
func TestADisclosedPartShowsNothingOfTheOthers(t *testing.T) {
	m := newMade(t, 40)
	for i := range 40 {
		p, e := m.proof(t, i, 1)
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, p.Encode()...)
		all := bytes.Clone(b)
		for _, l := range append(e.Leaves, ShownLeaf{Bytes: e.Header}) {
			all = append(all, l.Bytes...)
		}
		if !bytes.Contains(all, fmt.Appendf(nil, "part 0 of turn %d", i)) {
			t.Fatalf("turn %d: the part is not shown", i)
		}
		d, err := seal.Disclose(m.events[i], m.ring, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range d.Count {
			if n == 1 {
				continue
			}
			o, err := seal.Disclose(m.events[i], m.ring, n)
			if err != nil {
				t.Fatal(err)
			}
			for what, secret := range map[string][]byte{"text": fmt.Appendf(nil, "part %d of turn %d", n-1, i), "bytes": o.Bytes, "salt": o.Salt[:]} {
				if what == "text" && n == 0 {
					continue
				}
				if bytes.Contains(all, secret) || bytes.Contains(all, []byte(base64.StdEncoding.EncodeToString(secret))) {
					t.Errorf("turn %d: the %s of leaf %d is shown", i, what, n)
				}
			}
		}
	}
}
