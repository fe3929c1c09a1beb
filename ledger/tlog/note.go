package tlog

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"nexus/turns"
)

// strict decodes base64 in its one form only.
var strict = base64.StdEncoding.Strict()

// Checkpoint is the size and the root of the tree of a log at one time.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   turns.Hash
}

// Origin names a log: the ledger, the instant at which its stream was made, and how often the log began
// anew there since a repair gave up what nobody has the hash of (0: never). A restored ledger has another
// one than its original.
func Origin(ledger string, created time.Time, began int) string {
	s := "nexus/" + ledger + "/" + created.UTC().Format(time.RFC3339Nano)
	if began > 0 {
		s += "/" + strconv.Itoa(began)
	}
	return s
}

// LedgerOf returns the UUID of the ledger in an origin, "" if it names none.
func LedgerOf(origin string) string {
	if parts := strings.Split(origin, "/"); len(parts) >= 3 && parts[0] == "nexus" {
		return parts[1]
	}
	return ""
}

// Text is what a note of c signs.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Key signs checkpoints of one origin.
type Key struct {
	signer note.Signer
	text   string // as it is stored
	public string
}

// NewKey returns a new key. rand is a source of random bytes.
func NewKey(rand io.Reader, origin string) (*Key, error) {
	text, _, err := note.GenerateKey(rand, origin)
	if err != nil {
		return nil, err
	}
	return ParseKey(text)
}

// ParseKey reads a key as [Key.Text] spells it. Errors: [turns.ErrCorrupt]; they do not quote it.
func ParseKey(text string) (*Key, error) {
	bad := fmt.Errorf("%w: it is no key of checkpoints", turns.ErrCorrupt)
	text = strings.TrimSuffix(text, "\n")
	signer, err := note.NewSigner(text)
	if err != nil {
		return nil, bad
	}
	fields := strings.SplitN(text, "+", 5) // the last one may hold a plus
	seed, err := strict.DecodeString(fields[len(fields)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, bad
	}
	public := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	verifier, err := note.NewEd25519VerifierKey(signer.Name(), public)
	if err != nil {
		return nil, bad
	}
	return &Key{signer, text, verifier}, nil
}

// Text is the key as it is stored. It is secret.
func (k *Key) Text() string { return k.text }

// Public is what checks the signatures: name, id, and public key, as c2sp.org/signed-note spells it.
func (k *Key) Public() string { return k.public }

// Origin is the log whose checkpoints k signs.
func (k *Key) Origin() string { return k.signer.Name() }

// Sign returns c as a note. c is of the key's origin.
func (k *Key) Sign(c Checkpoint) ([]byte, error) {
	if c.Origin != k.Origin() {
		return nil, fmt.Errorf("%w: the key signs for %s, not for %s", turns.ErrMalformed, k.Origin(), c.Origin)
	}
	return note.Sign(&note.Note{Text: c.Text()}, k.signer)
}

// SignText signs a text that is no checkpoint: its first line is no origin of a log.
func (k *Key) SignText(text string) ([]byte, error) {
	if first, _, _ := strings.Cut(text, "\n"); first == k.Origin() || LedgerOf(first) != "" {
		return nil, fmt.Errorf("%w: the text would read as a checkpoint", turns.ErrMalformed)
	}
	return note.Sign(&note.Note{Text: text}, k.signer)
}

// OpenText reads a note of [Key.SignText], and checks that a public key has signed it. Errors: [turns.ErrMalformed] for no
// key; [turns.ErrCorrupt].
func OpenText(b []byte, public string) (string, error) {
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return "", fmt.Errorf("%w: public key: %v", turns.ErrMalformed, err)
	}
	n, err := note.Open(b, note.VerifierList(verifier))
	if err != nil {
		return "", fmt.Errorf("%w: signed text: %v", turns.ErrCorrupt, err)
	}
	return n.Text, nil
}

// OpenCheckpoint reads a note, and checks that a public key has signed it for the key's own origin. Signatures of other
// keys are ignored. Errors: [turns.ErrMalformed] for what is no checkpoint or no key; [turns.ErrCorrupt].
func OpenCheckpoint(b []byte, public string) (Checkpoint, error) {
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %q is no public key of checkpoints", turns.ErrMalformed, clip(public))
	}
	c, err := ReadCheckpoint(b)
	if err != nil {
		return c, err
	}
	if c.Origin != verifier.Name() {
		return c, fmt.Errorf("%w: the checkpoint is of %s, the key of %s", turns.ErrCorrupt, clip(c.Origin), clip(verifier.Name()))
	}
	if _, err := note.Open(b, note.VerifierList(verifier)); err != nil {
		return c, fmt.Errorf("%w: the key has not signed the checkpoint of %s", turns.ErrCorrupt, clip(c.Origin))
	}
	return c, nil
}

// ReadCheckpoint reads what a note says, and believes it. It takes the one form of a note only.
// Errors: [turns.ErrMalformed].
func ReadCheckpoint(b []byte) (c Checkpoint, err error) {
	bad := func(why string) (Checkpoint, error) {
		return Checkpoint{}, fmt.Errorf("%w: it is no checkpoint: %s", turns.ErrMalformed, why)
	}
	text, signatures, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok || len(b) > 1<<20 {
		return bad("it has no signatures")
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 3 || lines[0] == "" {
		return bad("it has not three lines")
	}
	c.Origin = lines[0]
	if c.Size, err = strconv.ParseUint(lines[1], 10, 64); err != nil || c.Size > maxSize || strconv.FormatUint(c.Size, 10) != lines[1] {
		return bad("its size is no number")
	}
	if c.Root, err = decodeHash(lines[2]); err != nil {
		return bad("its root is no hash")
	}
	rest, ok := strings.CutSuffix(string(signatures), "\n")
	if !ok {
		return bad("it has no end")
	}
	keys := make(map[string]bool)
	for line := range strings.SplitSeq(rest, "\n") {
		line, ok := strings.CutPrefix(line, "— ")
		name, sig, isPair := strings.Cut(line, " ")
		b, err := strict.DecodeString(sig)
		if !ok || !isPair || name == "" || err != nil || len(b) < 5 {
			return bad("a line of its signatures is none")
		}
		key := name + " " + string(b[:4])
		if keys[key] { // note.Open looks at the first one only
			return bad("a key has signed it twice")
		}
		keys[key] = true
	}
	return c, nil
}

// Notes splits a file to which notes were appended, as a folder of [checkpoint] out has. Each note ends
// with an empty line or with the file. Of a note that a crash tore it returns what there is, which
// [ReadCheckpoint] refuses; the ones before and after it are whole.
func Notes(b []byte) (out [][]byte) {
	var text []byte // of a note whose signatures follow
	end := func() {
		if text != nil {
			out, text = append(out, text), nil
		}
	}
	for block := range bytes.SplitSeq(b, []byte("\n\n")) {
		if block = bytes.Trim(block, "\n"); len(block) == 0 {
			continue
		}
		block = append(bytes.Clone(block), '\n')
		if !bytes.HasPrefix(block, []byte("— ")) {
			end()
			text = block
			continue
		}
		text = append(append(text, '\n'), block...)
		end()
	}
	end()
	return out
}

func decodeHash(s string) (h turns.Hash, err error) {
	b, err := strict.DecodeString(s)
	if err != nil || len(b) != len(h) || base64.StdEncoding.EncodeToString(b) != s {
		return h, fmt.Errorf("%w: no hash", turns.ErrMalformed)
	}
	return turns.Hash(b), nil
}

func clip(s string) string { return s[:min(len(s), 120)] }
