package tlog

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
)

// forgery is a change of a sound proof, or of the file beside it.
type forgery struct {
	proof func(p *Proof, m *made)
	text  func(b string, m *made) string // of the encoded proof
	event func(e *Event, m *made)
	file  func(b string, m *made) string // of the encoded file of the event
}

// resign puts a note of another key or origin under a proof.
func resign(origin string, size int, root turns.Hash) func(*Proof, *made) {
	return func(p *Proof, m *made) {
		c := Checkpoint{origin, uint64(size), root}
		if size == 0 {
			c.Size = uint64(len(m.payloads))
		}
		if root.IsZero() {
			c.Root = m.root
		}
		k, _ := NewKey(zeros{}, origin)
		p.Note, _ = k.Sign(c)
	}
}

func replace(a, b string) func(string, *made) string {
	return func(s string, _ *made) string { return strings.Replace(s, a, b, 1) }
}

// line changes a line of the proof.
func line(n int, f func(string) string) func(string, *made) string {
	return func(s string, _ *made) string {
		l := strings.Split(s, "\n")
		if n < 0 {
			n = len(l) + n
		}
		l[n] = f(l[n])
		return strings.Join(l, "\n")
	}
}

// loose writes the last character of base64 with bits that are not used.
func loose(s string) string {
	body, pad := strings.TrimRight(s, "="), len(s)-len(strings.TrimRight(s, "="))
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	at := strings.IndexByte(digits, body[len(body)-1])
	return body[:len(body)-1] + string(digits[at|1]) + strings.Repeat("=", pad)
}

// The turn that is proven is number 13 of 21; of its leaves 0 and 1 are shown, unless a forgery says otherwise.
var forgeries = map[string]forgery{
	"another event":                   {event: func(e *Event, m *made) { *e = *other(m) }},
	"the body's hash changed":         {event: func(e *Event, _ *made) { e.Body[3] ^= 1 }},
	"the header changed":              {event: func(e *Event, _ *made) { e.Header[20] ^= 1 }},
	"the header cut":                  {event: func(e *Event, _ *made) { e.Header = e.Header[:len(e.Header)-1] }},
	"the header extended":             {event: func(e *Event, _ *made) { e.Header = append(e.Header, 0) }},
	"header and body moved by a byte": {event: func(e *Event, _ *made) { e.Header, e.Body = append(e.Header, e.Body[0]), e.Body[1:] }},
	"a part changed":                  {event: func(e *Event, _ *made) { e.Leaves[1].Bytes[9] ^= 1 }},
	"a part cut":                      {event: func(e *Event, _ *made) { e.Leaves[1].Bytes = e.Leaves[1].Bytes[1:] }},
	"a part moved to another place":   {event: func(e *Event, _ *made) { e.Leaves[1].Leaf = 2 }},
	"leaf 0 shown as leaf 1":          {event: func(e *Event, _ *made) { e.Leaves[0].Leaf = 1 }},
	"places of two parts exchanged":   {event: func(e *Event, _ *made) { e.Leaves[0].Leaf, e.Leaves[1].Leaf = 1, 0 }},
	"another salt":                    {event: func(e *Event, _ *made) { e.Leaves[1].Salt[0] ^= 1 }},
	"another part's salt":             {event: func(e *Event, _ *made) { e.Leaves[1].Salt = e.Leaves[0].Salt }},
	"a byte of the salt shown as text": {event: func(e *Event, _ *made) {
		l := &e.Leaves[1]
		l.Bytes, l.Salt = append(l.Salt[31:32:32], l.Bytes...), l.Salt[:31]
	}},
	"a node shown as a leaf":      {event: func(e *Event, _ *made) { e.Leaves[1] = nodeAsLeaf(e.Leaves[1]) }},
	"a part of another event":     {event: func(e *Event, m *made) { e.Leaves[1] = other(m).Leaves[1] }},
	"more leaves than there are":  {event: func(e *Event, _ *made) { e.Leaves[1].Count *= 4 }},
	"no leaf at all":              {event: func(e *Event, _ *made) { e.Leaves[1].Count = 0 }},
	"a leaf before the first":     {event: func(e *Event, _ *made) { e.Leaves[1].Leaf = -1 }},
	"a part's path cut":           {event: func(e *Event, _ *made) { l := &e.Leaves[1]; l.Path = l.Path[:len(l.Path)-1] }},
	"a part's path extended":      {event: func(e *Event, _ *made) { l := &e.Leaves[1]; l.Path = append(l.Path, l.Salt) }},
	"a step of a part's path cut": {event: func(e *Event, _ *made) { l := &e.Leaves[1]; l.Path[0] = l.Path[0][1:] }},
	"the index of a neighbour":    {proof: func(p *Proof, _ *made) { p.Index++ }},
	"index and size exchanged": {text: func(s string, m *made) string {
		return strings.Replace(strings.Replace(s, "index 13\n", "index 21\n", 1), "\n21\n", "\n13\n", 1)
	}},
	"an index over the size":            {proof: func(p *Proof, _ *made) { p.Index += 32 }},
	"an index with a zero before":       {text: replace("index 13", "index 013")},
	"an index with a sign":              {text: replace("index 13", "index +13")},
	"a size with a zero before":         {text: replace("\n21\n", "\n021\n")},
	"a smaller size":                    {text: replace("\n21\n", "\n20\n")},
	"the path cut":                      {proof: func(p *Proof, _ *made) { p.Path = p.Path[:len(p.Path)-1] }},
	"the path extended":                 {proof: func(p *Proof, _ *made) { p.Path = append(p.Path, turns.Hash{}) }},
	"two steps exchanged":               {proof: func(p *Proof, _ *made) { p.Path[0], p.Path[1] = p.Path[1], p.Path[0] }},
	"no path":                           {proof: func(p *Proof, _ *made) { p.Path = nil }},
	"the leaf's own hash as the path":   {proof: func(p *Proof, m *made) { p.Path = p.Path[1:] }},
	"another root, not signed":          {text: func(s string, m *made) string { return strings.Replace(s, b64(m.root), b64(turns.Hash{7}), 1) }},
	"another key for the same log":      {proof: resign("nexus/l/c", 0, turns.Hash{})},
	"another log and key":               {proof: resign("nexus/l/d", 0, turns.Hash{})},
	"another origin over the signature": {text: replace("nexus/l/c\n", "nexus/l/d\n")},
	"the name of the key changed":       {text: replace("— nexus/l/c ", "— nexus/l/d ")},
	"the id of the key changed":         {text: line(-2, func(s string) string { return flip(s, 0) })},
	"the signature changed":             {text: line(-2, func(s string) string { return flip(s, 40) })},
	"the signature cut":                 {text: line(-2, func(s string) string { f := strings.LastIndexByte(s, ' '); return s[:f+5] })},
	"no signature": {text: func(s string, _ *made) string {
		l := strings.Split(s, "\n")
		return strings.Join(l[:len(l)-2], "\n") + "\n"
	}},
	"a signature that is not strict": {text: line(-2, func(s string) string { f := strings.LastIndexByte(s, ' '); return s[:f+1] + loose(s[f+1:]) })},
	"a step that is not strict":      {text: line(2, loose)},
	"a step without padding":         {text: line(2, func(s string) string { return strings.TrimRight(s, "=") })},
	"a step with a space":            {text: line(2, func(s string) string { return s + " " })},
	"a step with a carriage return":  {text: line(2, func(s string) string { return s + "\r" })},
	"the root that is not strict":    {text: func(s string, m *made) string { return strings.Replace(s, b64(m.root), loose(b64(m.root)), 1) }},
	"cut at the end":                 {text: func(s string, _ *made) string { return s[:len(s)-1] }},
	"cut in the middle":              {text: func(s string, _ *made) string { return s[:len(s)/2] }},
	"extended by a line":             {text: func(s string, _ *made) string { return s + "x\n" }},
	"extended by an empty line":      {text: func(s string, _ *made) string { return s + "\n" }},
	"another version":                {text: replace("proof@v1", "proof@v2")},
	"a line before it":               {text: func(s string, _ *made) string { return "\n" + s }},
	"an extension line":              {text: func(s string, m *made) string { return strings.Replace(s, b64(m.root)+"\n", b64(m.root)+"\nmore\n", 1) }},
	"a wrong signature of the key behind the right one": {text: func(s string, _ *made) string {
		l := strings.Split(s, "\n")
		return s + flip(l[len(l)-2], 40) + "\n"
	}},
	"a wrong signature of the key before the right one": {text: line(-2, func(s string) string { return flip(s, 40) + "\n" + s })},
	"a signature line whose name is no text":            {text: func(s string, _ *made) string { return s + "— \xff AAAAAAAA\n" }},
	"a signature line whose name has a control":         {text: func(s string, _ *made) string { return s + "— a\x01b AAAAAAAA\n" }},
	"a signature line without a signature":              {text: func(s string, _ *made) string { return s + "— x AAAAAA==\n" }},
	"a member twice, the first one false":               {file: twice(`"bytes":"`, `"bytes":"AAAA",`)},
	"a member in another case, the first one false": {file: func(s string, _ *made) string {
		return twice(`"bytes":"`, `"bytes":"AAAA",`)(strings.ReplaceAll(s, `"bytes"`, `"Bytes"`), nil)
	}},
	"a member with a letter that folds":  {file: replace(`"salt"`, `"\u017falt"`)},
	"all leaves twice":                   {file: twice(`"leaves":`, `"leaves":[],`)},
	"a second value in the file":         {file: func(s string, _ *made) string { return s + s }},
	"the file in UTF-16":                 {file: utf16le},
	"the file with a byte order mark":    {file: func(s string, _ *made) string { return "\ufeff" + s }},
	"a file that is no text":             {file: replace(`{"nexus_event"`, "{\"x\xff\":1,\"nexus_event\"")},
	"another version of the file":        {file: replace(`"nexus_event":1`, `"nexus_event":2`)},
	"no version of the file":             {file: replace(`"nexus_event":1,`, ``)},
	"the body's hash that is not strict": {file: looseMember("body")},
	"a salt that is not strict":          {file: looseMember("salt")},
	"a salt with a line feed":            {file: replace(`"salt":"`, `"salt":"\n`)},
	"a count that is no number":          {file: replace(`"count":`, `"count":true,"was":`)},
	"a leaf with a fraction":             {file: replace(`"leaf":1`, `"leaf":1.0`)},
	"a leaf with an exponent":            {file: replace(`"leaf":1`, `"leaf":1e0`)},
	"nothing":                            {text: func(string, *made) string { return "" }},
	"a checkpoint alone":                 {text: func(s string, m *made) string { return string(m.note) }},
}

// twice puts something before a member, which has its name too.
func twice(member, before string) func(string, *made) string { return replace(member, before+member) }

// looseMember writes the base64 of a member with bits that are not used.
func looseMember(name string) func(string, *made) string {
	return func(s string, _ *made) string {
		before, rest, _ := strings.Cut(s, `"`+name+`":"`)
		value, rest, _ := strings.Cut(rest, `"`)
		return before + `"` + name + `":"` + loose(value) + `"` + rest
	}
}

func utf16le(s string, _ *made) string {
	out := []byte{0xff, 0xfe}
	for _, b := range []byte(s) {
		out = append(out, b, 0)
	}
	return string(out)
}

func b64(h turns.Hash) string { return base64.StdEncoding.EncodeToString(h[:]) }

// flip changes a bit of a byte of the signature in a line.
func flip(s string, at int) string {
	f := strings.LastIndexByte(s, ' ')
	b, _ := base64.StdEncoding.DecodeString(s[f+1:])
	b[at] ^= 1
	return s[:f+1] + base64.StdEncoding.EncodeToString(b)
}

// other is the file of another turn of the log, with leaves shown.
func other(m *made) *Event {
	e := m.events[14]
	a, _ := seal.Disclose(e, m.ring, 0)
	b, _ := seal.Disclose(e, m.ring, 1)
	out, _ := NewEvent(m.payloads[14], a, b)
	return out
}

// nodeAsLeaf shows the node above a leaf and its neighbour as a leaf of a smaller tree: the two hashes as its text.
func nodeAsLeaf(l ShownLeaf) ShownLeaf {
	own := turns.Digest("x", l.Bytes) // the text of a node is two hashes; a leaf has a zero byte and a salt before it
	return ShownLeaf{Leaf: l.Leaf / 2, Count: (l.Count + 1) / 2, Salt: l.Path[0], Bytes: own[:], Path: l.Path[1:]}
}

// A part at the end of a tree has the same path as one of a smaller tree; leaf 0 says which it is.
func TestLeafZeroSaysWhereAPartIs(t *testing.T) {
	m, dir := newMade(t, 3), t.TempDir()
	p, e := m.proof(t, 0, 0, 6)
	write(t, dir, "sound", p.Encode(), e)
	if err := verified(dir, m.key.Public(), "sound"); err != nil {
		t.Fatal(err)
	}
	for i := range e.Leaves {
		e.Leaves[i].Count--
	}
	e.Leaves[1].Leaf--
	write(t, dir, "moved", p.Encode(), e)
	for name, accepted := range checkers(t, dir, m.key.Public(), []string{"sound", "moved"}) {
		if slices.Contains(accepted, name == "moved") {
			t.Errorf("%s: accepted %v", name, accepted)
		}
	}
}

func TestCheckersRefuseForgeries(t *testing.T) {
	m, dir := newMade(t, 21), t.TempDir()
	names, of := []string{"sound"}, map[string]string{"sound": "sound"}
	p, e := m.proof(t, 13, 0, 1)
	write(t, dir, "sound", p.Encode(), e)
	for what, f := range forgeries {
		p, e := m.proof(t, 13, 0, 1)
		p.Path = append([]turns.Hash(nil), p.Path...)
		before, _ := e.Encode()
		sound := p.Encode()
		if f.proof != nil {
			f.proof(p, m)
		}
		b := p.Encode()
		if f.text != nil {
			b = []byte(f.text(string(b), m))
		}
		if f.event != nil {
			f.event(e, m)
		}
		after, _ := e.Encode()
		if f.file != nil {
			after = []byte(f.file(string(after), m))
		}
		if bytes.Equal(b, sound) && bytes.Equal(before, after) {
			t.Errorf("%s: nothing is forged", what)
		}
		name := fmt.Sprintf("f%d", len(names))
		write(t, dir, name, b, e)
		if err := os.WriteFile(filepath.Join(dir, name+".event"), after, 0o600); err != nil {
			t.Fatal(err)
		}
		names, of[name] = append(names, name), what
	}
	if len(names) < 41 {
		t.Errorf("%d forgeries", len(names)-1)
	}
	t.Logf("%d named forgeries", len(names)-1)
	for name, said := range checkers(t, dir, m.key.Public(), names) {
		for i, ok := range said {
			if ok != (name == "sound") {
				t.Errorf("%s: checker %d (own, Go, Python) says %v", of[name], i, ok)
			}
		}
	}
}

// Each bit of a proof, and of the header and the body's hash beside it, counts, and all checkers say so.
func TestCheckersRefuseEachChangedBit(t *testing.T) {
	m, dir := newMade(t, 9), t.TempDir()
	p, e := m.proof(t, 4, 1)
	sound := p.Encode()
	var names []string
	for i := range sound {
		b := bytes.Clone(sound)
		b[i] ^= 1 << (i % 8)
		name := fmt.Sprintf("p%d", i)
		write(t, dir, name, b, e)
		names = append(names, name)
	}
	for i := range e.Header {
		e.Header = bytes.Clone(e.Header)
		e.Header[i] ^= 1 << (i % 8)
		name := fmt.Sprintf("h%d", i)
		write(t, dir, name, sound, e)
		names = append(names, name)
		e.Header[i] ^= 1 << (i % 8)
	}
	for name, said := range checkers(t, dir, m.key.Public(), names) {
		for i, ok := range said {
			if ok {
				t.Errorf("%s: checker %d takes it", name, i)
			}
		}
	}
}

var checkerEdits = flag.Int("checker-edits", 500, "TestCheckersSayTheSame: how many edits of a sound proof it makes")

// Of what nobody thought of, too, both checkers say the same; they are never less strict than the package. The package alone
// refuses members that it does not know.
func TestCheckersSayTheSame(t *testing.T) {
	m, dir := newMade(t, 9), t.TempDir()
	p, e := m.proof(t, 4, 0, 1)
	event, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rng := mathrand.New(mathrand.NewPCG(3, 4))
	pieces := strings.Split("null|true|{}|[]|\"\"|0|1|-1|1.0|1e0|01|99999999999999999999|,|:|\"|\\u0041|\\n|\n|\r|\n\n| |=|==|A|AAAA|+|— x AAAAAAAA\n|— |\u00a0|\ufffd|\xff|\x00|"+
		`"leaf":0,|"count":1,|"salt":"",|"bytes":"AAAA",|"path":[],|"leaves":[],|"Leaf":1,|"key":null,|"x":NaN,|"x":[{"a":1,"a":1}],|"x":"\ud800",`, "|")
	var names []string
	for i := range *checkerEdits {
		files := [][]byte{p.Encode(), bytes.Clone(event)}
		which := min(1, rng.IntN(4))
		b := files[which]
		at := rng.IntN(len(b))
		if rng.IntN(2) == 0 { // at a border of a member or a line
			if n := bytes.IndexAny(b[at:], "{[,:\n"); n >= 0 {
				at += n + 1
			}
		}
		end := min(len(b), at+rng.IntN(3)*rng.IntN(40))
		piece := []byte(pieces[rng.IntN(len(pieces))])
		if rng.IntN(8) == 0 {
			piece = bytes.Repeat(b[at:end], 2)
		}
		files[which] = slices.Concat(b[:at], piece, b[end:])
		name := fmt.Sprintf("e%d", i)
		names = append(names, name)
		for n, suffix := range []string{"", ".event"} {
			if err := os.WriteFile(filepath.Join(dir, name+suffix), files[n], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	accepted := 0
	for name, verdicts := range checkers(t, dir, m.key.Public(), names) {
		if verdicts[1] != verdicts[len(verdicts)-1] || verdicts[0] && !verdicts[1] {
			proof, _ := os.ReadFile(filepath.Join(dir, name))
			file, _ := os.ReadFile(filepath.Join(dir, name+".event"))
			t.Errorf("%s: own, Go, Python: %v\n%q\n%q", name, verdicts, proof, file)
		}
		if verdicts[1] {
			accepted++
		}
	}
	t.Logf("%d edits, %d of them harmless", len(names), accepted)
}

// A part alone is not said to have a place: with another number it would be accepted as well.
func TestAPartAloneHasNoPlace(t *testing.T) {
	m, dir := newMade(t, 3), t.TempDir()
	p, alone := m.proof(t, 0, 6)
	write(t, dir, "alone", p.Encode(), alone)
	_, placed := m.proof(t, 0, 0, 6)
	write(t, dir, "placed", p.Encode(), placed)
	script, err := filepath.Abs("../../docs/examples/go/verify")
	if err != nil {
		t.Fatal(err)
	}
	for name, proven := range map[string]bool{"alone": false, "placed": true} {
		b, err := exec.Command("go", "run", script, m.key.Public(), filepath.Join(dir, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if said := string(b); strings.Contains(said, "not proven") == proven || strings.Contains(said, "part 6 of 6") != proven {
			t.Errorf("%s: %s", name, said)
		}
	}
}
