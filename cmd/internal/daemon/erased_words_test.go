package daemon

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/blevesearch/bleve/v2"
	"github.com/klauspost/compress/snappy"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/engine/content"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

// aWord is a word that no splitter of words parts, and nobody else says.
func aWord() string {
	b := make([]byte, 18)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b)
}

// writtenAs returns a word in the ways that a file may have it.
func writtenAs(word string) (out [][]byte) {
	out = append(out, []byte(word), []byte(strings.ToUpper(word)), []byte(hex.EncodeToString([]byte(word))))
	var le, be []byte
	for _, u := range utf16.Encode([]rune(word)) {
		le, be = append(le, byte(u), byte(u>>8)), append(be, byte(u>>8), byte(u))
	}
	out = append(out, le, be)
	for shift := range 3 { // what stands before it moves the digits; those that its neighbours have a part in are left out
		b := []byte(base64.StdEncoding.EncodeToString(append(make([]byte, shift), word...)))
		out = append(out, b[4:len(b)-4])
	}
	return out
}

// foundIn returns which words a text has, in any of these ways.
func foundIn(b []byte, words map[string]string) (out []string) {
	for place, word := range words {
		if slices.ContainsFunc(writtenAs(word), func(w []byte) bool { return bytes.Contains(b, w) }) {
			out = append(out, place)
		}
	}
	return out
}

// scanned returns which words the files of a folder have, by place, with the files: as they are, and unpacked.
func scanned(t *testing.T, dir string, words map[string]string) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts := [][]byte{b}
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			plain, _ := io.ReadAll(z)
			texts = append(texts, plain)
		}
		if strings.HasSuffix(name, ".zap") { // a segment of the index of words: its stored fields are blocks of snappy, anywhere
			for at := range b {
				if n, err := snappy.DecodedLen(b[at:]); err == nil && n > 16 && n < 1<<20 {
					if plain, err := snappy.Decode(nil, b[at:]); err == nil {
						texts = append(texts, plain)
					}
				}
			}
		}
		if e.Name() == "index_meta.json" { // its words are a tree of letters
			texts = append(texts, termsOf(t, filepath.Dir(name)))
		}
		for _, text := range texts {
			for _, place := range foundIn(text, words) {
				found[place] = append(found[place], strings.TrimPrefix(name, dir+"/"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// termsOf returns the words of an index.
func termsOf(t *testing.T, dir string) (out []byte) {
	t.Helper()
	idx, err := bleve.OpenUsing(dir, map[string]any{"read_only": true})
	if err != nil {
		t.Fatal(err)
	}
	defer idx.Close()
	fields, err := idx.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		terms, err := idx.FieldDict(field)
		if err != nil {
			t.Fatal(err)
		}
		for {
			term, err := terms.Next()
			if err != nil || term == nil {
				break
			}
			out = append(append(out, term.Term...), '\n')
		}
		if err := terms.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// openedWords returns which words the events of a folder have, opened with every key that is there, and the content of
// the blobs that they refer to.
func openedWords(t *testing.T, dir string, words map[string]string) map[string]bool {
	t.Helper()
	keys, err := keyring.Open(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	sealed := make(map[turns.Hash][]byte) // of blobs, by address
	for r, err := range blocks.Records(t.Context(), embed.StreamDir(dir, jetstream.BlobsStream(0)), 0) {
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Split(must[string](t)(jetstream.FirstSubject(r.Subject)), ".")
		if address, err := turns.ParseHash("sha256:" + f[3]); err == nil {
			sealed[address] = append(sealed[address], r.Payload...)
		}
	}
	found, read := make(map[string]bool), 0
	for r, err := range blocks.Records(t.Context(), embed.StreamDir(dir, jetstream.StreamName), 0) {
		if err != nil {
			t.Fatal(err)
		}
		ev, err := turns.Decode(r.Payload)
		if err != nil {
			continue
		}
		body, err := seal.Open(ev, keys)
		if err != nil {
			continue
		}
		read++
		texts := [][]byte{body}
		var refs []*turns.BlobRef
		b := bodyOf(keys, ev)
		for _, p := range content.BodyParts(b) {
			refs = append(refs, p.Ref)
		}
		switch b := b.(type) {
		case *turns.OpenedBody:
			refs = append(refs, b.Settings.PreambleBlob)
		case *turns.ChangedBody:
			refs = append(refs, b.Settings.PreambleBlob)
		}
		for _, ref := range refs {
			if ref == nil {
				continue
			}
			if plain, err := seal.OpenBlob(ref.Digest, sealed[seal.BlobAddress(ref.Digest)]); err == nil {
				texts = append(texts, plain)
			}
		}
		for _, text := range texts {
			for _, place := range foundIn(text, words) {
				found[place] = true
			}
		}
	}
	if read == 0 {
		t.Fatal("no body opens")
	}
	return found
}

// bodyOf returns the body of a session's event, of a redacted one that which it puts in the place of another's; nil if keys do not open it.
func bodyOf(keys seal.Keyring, ev *turns.Event) any {
	b, err := content.NewBody(ev.Kind)
	if err != nil || content.OpenBody(keys, ev, b) != nil {
		return nil
	}
	if redacted, ok := b.(*turns.RedactedBody); ok {
		if b, err = content.RedactedContent(redacted); err != nil {
			return nil
		}
	}
	return b
}

// wordy is a ledger with a session that has a word in each place where a session can have one.
type wordy struct {
	words                map[string]string // by place
	kept                 string            // what the other sessions said
	session, fork, other *api.Session
}

// fill makes the sessions of w by c, and returns when the files of the design of its session are there.
func (w *wordy) fill(t *testing.T, c *client.Client, cfg config.Config) {
	t.Helper()
	ctx := t.Context()
	w.words, w.kept = make(map[string]string), aWord()
	word := func(place string) string { w.words[place] = aWord(); return w.words[place] }

	label := word("label")
	create := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Policy: &api.Policy{Name: "gsv"}, Limits: &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000},
		Meta: turns.Raw(fmt.Sprintf(`{"title":%q,"cwd":"/home/%s"}`, word("meta"), word("folder")))}}
	system := word("system")
	create.System = &api.System{{Content: system}}
	w.session = must[*api.Session](t)(c.Create(ctx, create))
	s := w.session
	answer := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		{Type: turns.Reasoning, Content: word("reasoning")}, {Type: turns.Text, Content: word("answer")},
		{Type: turns.ToolCall, ID: "c1", Name: "run", Arguments: turns.Raw(fmt.Sprintf(`{"x":%q}`, word("argument")))}}}
	first := says(word("prompt"))
	first.Messages[0].Parts = append(first.Messages[0].Parts, turns.Part{Type: turns.Blob, MimeType: "application/pdf", Data: bytes.Repeat([]byte(word("attachment")+" "), 20_000)})
	first.Response = &answer
	turn := must[*api.Appended](t)(c.Append(ctx, s.ID, first))
	result := fmt.Appendf(nil, "%q", word("result")+strings.Repeat(" and so on", 120_000))
	must[*api.Appended](t)(c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: result}}}}}))
	title, note := word("title"), word("note")
	must[*api.Session](t)(c.Describe(ctx, s.ID, api.DescribeSession{Title: &title, Tag: []string{word("tag")}}))
	must[*api.Turn](t)(c.Note(ctx, s.ID, api.NoteTurn{Turn: turn.ID, Text: note}))
	must[*api.Memory](t)(c.SaveMemory(ctx, api.SaveMemory{Kind: "daily", Text: word("memory"), Session: s.ID}))
	for i := range 30 {
		t := says(fmt.Sprintf("Remember: we use %s. %s", word(fmt.Sprint("fact ", i)), strings.Repeat("and so on ", 100)))
		m := turns.TextMessage(turns.Assistant, "Yes.")
		t.Response = &m
		if _, err := c.Append(ctx, s.ID, t); err != nil {
			panic(err)
		}
	}
	run, err := c.Compact(ctx, s.ID, api.RunCompaction{})
	if err != nil || run.Compaction == nil {
		t.Fatalf("%+v, %v", run, err)
	}
	kept := w.kept
	w.fork = must[*api.Session](t)(c.Fork(ctx, s.ID, api.CreateFork{Turn: turn.ID}))
	must[*api.Appended](t)(c.Append(ctx, w.fork.ID, says(kept)))
	must[*api.Session](t)(c.Close(ctx, w.fork.ID, api.CloseSession{}))
	w.other = must[*api.Session](t)(c.Create(ctx, api.CreateSession{}))
	must[*api.Appended](t)(c.Append(ctx, w.other.ID, says(kept)))
	code := must[*api.AppendedEvent](t)(c.AppendEvent(ctx, api.AppendEvent{Channel: "code." + s.ID.String(), Kind: "code.tree", Body: turns.Raw(fmt.Sprintf(`{"file":%q}`, word("code")))}))
	must[*api.SearchHits](t)(c.Search(ctx, api.Search{Text: w.words["prompt"], Read: api.Read{MinPosition: api.Position(code.Position)}})) // the index has all

	for tries := 0; ; tries++ { // until the files of the design are there
		if names, _ := filepath.Glob(filepath.Join(cfg.Files, "agents", "main", "*", "*")); len(names) > 1 {
			break
		}
		if tries == 1000 {
			t.Fatal("the files of the design are not there after 20 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// checkThere checks that the scans of a folder find each word.
func (w *wordy) checkThere(t *testing.T, dir string) {
	t.Helper()
	words := w.words
	before, openedBefore := scanned(t, dir, words), openedWords(t, dir, words)
	for place := range words {
		if len(before[place]) == 0 && !openedBefore[place] {
			t.Errorf("%s: neither scan finds it before", place)
		}
	}
	if len(before["prompt"]) == 0 || len(before["memory"]) == 0 || !openedBefore["attachment"] || !openedBefore["result"] {
		t.Errorf("the scans see little: %v, %v", before, openedBefore)
	}
}

// A word in each place where a session can have one is found before, by a scan of the files or by opening everything
// with every key, and nowhere after the session is erased and the daemon stopped. Every other session's events, and what
// opens of them, are as they were.
func TestErasedWordsAreNowhere(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Config{Data: dir, Files: filepath.Join(dir, "files"), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}
	d, c := startWith(t, cfg)
	ctx := t.Context()
	var w wordy
	w.fill(t, c, cfg)
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	w.checkThere(t, dir)
	words, kept := w.words, w.kept
	log, blobs := logRecords(t, dir, 1<<40)

	d, c = startWith(t, cfg)
	eraseSession(t, c, w.session.ID)
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	// What a fork copied of the settings is the fork's: the receipt says so.
	copied := map[string]string{"system": words["system"]}
	for place, names := range scanned(t, dir, words) {
		if copied[place] == "" {
			t.Errorf("%s is found after: %v", place, names)
		}
	}
	after := openedWords(t, dir, words)
	for _, place := range slices.Sorted(maps.Keys(after)) {
		if copied[place] == "" {
			t.Errorf("%s opens after", place)
		}
	}
	logAfter, blobsAfter := logRecords(t, dir, 1<<40)
	if len(logAfter) <= len(log) || !slices.Equal(logAfter[:len(log)], log) || !maps.Equal(blobs, blobsAfter) {
		t.Error("stored bytes changed")
	}
	if got := openedWords(t, dir, map[string]string{"kept": kept}); !got["kept"] {
		t.Error("what others said does not open any more")
	}
}

// The same words are nowhere after they are redacted, in the session and in its fork, but for those that the agent saved, a channel has, or
// that are a label.
func TestRedactedWordsAreNowhere(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Config{Data: dir, Files: filepath.Join(dir, "files"), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}
	d, c := startWith(t, cfg)
	ctx := t.Context()
	var w wordy
	w.fill(t, c, cfg)
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	w.checkThere(t, dir)
	log, _ := logRecords(t, dir, 1<<40)
	d, c = startWith(t, cfg)
	outside := map[string]bool{"label": true, "memory": true, "code": true}
	admin := c.As(api.Operator)
	for _, place := range slices.Sorted(maps.Keys(w.words)) {
		if outside[place] {
			continue
		}
		found := 0
		for _, s := range []turns.ID{w.session.ID, w.fork.ID} {
			r, err := admin.Redact(ctx, s, api.RedactTurn{Text: w.words[place]})
			if err != nil {
				t.Fatalf("%s: %v", place, err)
			}
			for _, x := range r.Events {
				found += x.Count
			}
		}
		if found == 0 {
			t.Errorf("%s: nothing is redacted", place)
		}
	}
	for tries := 0; ; tries++ {
		r := must[*api.Redacted](t)(admin.Redact(ctx, w.session.ID, api.RedactTurn{Text: w.words["prompt"]}))
		if r.Done {
			break
		}
		if tries == 600 {
			t.Fatalf("not done after a minute: %+v", r)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if v := must[*api.Verified](t)(admin.Verify(ctx)); !v.OK {
		t.Errorf("%+v", v.Problems)
	}
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for place, names := range scanned(t, dir, w.words) {
		if !outside[place] {
			t.Errorf("%s is found after: %v", place, names)
		}
	}
	for place := range openedWords(t, dir, w.words) {
		if !outside[place] {
			t.Errorf("%s opens after", place)
		}
	}
	if logAfter, _ := logRecords(t, dir, 1<<40); len(logAfter) <= len(log) || !slices.Equal(logAfter[:len(log)], log) {
		t.Error("stored bytes changed")
	}
	if got := openedWords(t, dir, map[string]string{"kept": w.kept}); !got["kept"] {
		t.Error("what others said does not open any more")
	}
}
