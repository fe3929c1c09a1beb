package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/plot"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var update = flag.Bool("update", false, "write the pictures of testdata and of docs/pictures anew")

// testLedger is a daemon for a test, and its client.
func testLedger(t *testing.T) *client.Client {
	t.Helper()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard, Quiet: true})
	c, stop, err := local.Start(t.Context(), e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

// fixedID is an id that is the same in every run, and ends with name.
func fixedID(name string) turns.ID {
	return turns.MustParseID("01M7XRTPPK" + strings.Repeat("0", 16-len(name)) + name)
}

func ptr[T any](v T) *T { return &v }

// checkPicture compares a picture with its file, and checks that it is XML of the
// width that pages have room for and that it fetches nothing.
func checkPicture(t *testing.T, file string, draw func(io.Writer) error) {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" `, plot.Width)) {
		t.Errorf("%s begins with %.80s", file, b.String())
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s is not XML: %v", file, err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "svg", "title", "style", "rect", "text", "tspan", "line", "path", "circle", "g":
			default:
				t.Errorf("%s has an element %s", file, e.Name.Local)
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test ./cmd/ledgerctl -run Picture -update writes it", err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the picture is no longer %s; look at the new one after: go test ./cmd/ledgerctl -run Picture -update", file)
	}
}

// drawTree is what ledgerctl tree --svg prints.
func drawTree(ctx context.Context, c *client.Client, id turns.ID) func(io.Writer) error {
	return func(w io.Writer) error {
		tree, err := c.Tree(ctx, id)
		if err != nil {
			return err
		}
		ls, left, err := plot.Lanes(ctx, c, tree)
		if err != nil {
			return err
		}
		return plot.Tree(w, ls, left, id)
	}
}

// A tree with what is hard to draw: a rewind, a fork from the branch before the rewind,
// an empty fork, compactions with and without what they cover, a hostile label.
func TestTreePicture(t *testing.T) {
	ctx, c := t.Context(), testLedger(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root := fixedID("R00T")
	_, err := c.Create(ctx, api.CreateSession{ID: root, SessionSettings: api.SessionSettings{Label: ptr(`<b>&"label"`)}})
	must(err)
	appendTo := func(s turns.ID, name string, n int) (last turns.ID) {
		for i := range n {
			last = fixedID(fmt.Sprintf("%s%d", name, i))
			m := turns.TextMessage(turns.Assistant, strings.Repeat("An answer of some length. ", 60))
			_, err := c.Append(ctx, s, api.AppendTurn{ID: last, Messages: []turns.Message{turns.TextMessage(turns.User, fmt.Sprintf("Question %d?", i))}, Response: &m})
			must(err)
		}
		return last
	}
	appendTo(root, "A", 9)
	_, err = c.Compact(ctx, root, api.RunCompaction{ID: fixedID("C1"), Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":900}`)}})
	must(err)
	appendTo(root, "B", 3)
	back := fixedID("A5")
	_, err = c.Move(ctx, root, api.MoveSession{To: &back})
	must(err)
	appendTo(root, "D", 5)
	_, err = c.Fork(ctx, root, api.CreateFork{ID: fixedID("F1"), Turn: fixedID("B1"), Label: ptr("a label that is much longer than its room")})
	must(err)
	appendTo(fixedID("F1"), "E", 4)
	_, err = c.Compact(ctx, fixedID("F1"), api.RunCompaction{ID: fixedID("C2"), Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":500}`)}})
	must(err)
	_, err = c.Fork(ctx, fixedID("F1"), api.CreateFork{ID: fixedID("F2"), Turn: fixedID("A3"), Mode: "full"})
	must(err)
	checkPicture(t, "testdata/tree.svg", drawTree(ctx, c, root))
}

// A context with every kind of content, one that is over its budget, one that a
// provider counted higher than the ledger, and an empty one.
func TestContextPicture(t *testing.T) {
	source := func(turn, half, status string, tokens uint64) api.Source {
		return api.Source{Turn: fixedID(turn), Half: half, Status: status, Tokens: tokens}
	}
	cx := &api.Context{Budget: 29_200, Overhead: 3_100, Tokens: 14_460, Recipe: turns.Raw(`{"counter":"wolffish-1"}`), Sources: []api.Source{
		source("C1", "", "summary", 6_122),
		source("A1", "response", "verbatim", 410), source("A2", "messages", "cleared", 1_200), source("A2", "response", "verbatim", 900),
		source("A3", "messages", "elided", 2_000), source("A3", "response", "synthetic", 28), source("A4", "messages", "verbatim", 2_400), source("A4", "response", "verbatim", 1_400),
	}}
	for file, cx := range map[string]*api.Context{
		"context":        cx,
		"context_over":   {Budget: 12_000, Reported: 16_400, WindowGuess: true, Overhead: cx.Overhead, Tokens: cx.Tokens, Sources: cx.Sources, Recipe: cx.Recipe},
		"context_billed": {Budget: 40_000, Reported: 31_000, Overhead: cx.Overhead, Tokens: cx.Tokens, Sources: cx.Sources, Recipe: cx.Recipe},
		"context_empty":  {Budget: 110_000},
	} {
		checkPicture(t, filepath.Join("testdata", file+".svg"), func(w io.Writer) error { return plot.Context(w, `a <b>&"label"`, cx) })
	}
}

// The pictures of README.md and docs/GUIDE.md are those of the session that quickstart
// imports, as the program draws them today.
func TestReadmePictures(t *testing.T) {
	ctx, c := t.Context(), testLedger(t)
	im := transcripts.Importer{Client: c, Stdin: bytes.NewReader(quickstart.Transcript), Format: "auto", Final: true, Window: quickstart.Window}
	rep, err := im.File(ctx, "-")
	if err != nil {
		t.Fatal(err)
	}
	first := rep.Sessions[0]
	s, err := local.Largest(ctx, c, rep.Sessions)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(ctx, s.ID, api.RunCompaction{ID: fixedID("5J3JPBN5")}); err != nil {
		t.Fatal(err)
	}
	var at turns.ID
	for p, err := range c.Path(ctx, s.ID, api.GetPath{}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Depth == s.Depth/2 {
			at = p.ID
		}
	}
	f, err := c.Fork(ctx, s.ID, api.CreateFork{ID: fixedID("ZE8S2DBB"), Turn: at})
	if err != nil {
		t.Fatal(err)
	}
	m := turns.TextMessage(turns.Assistant, "Here the fork goes its own way.")
	if _, err := c.Append(ctx, f.ID, api.AppendTurn{ID: fixedID("ZE8T1"), Messages: []turns.Message{turns.TextMessage(turns.User, "What if we had gone another way?")}, Response: &m}); err != nil {
		t.Fatal(err)
	}
	// ledgerctl compact 1PXPHXW5 --policy 'balanced{"keep_tokens":8000}'
	if _, err := c.Compact(ctx, first, api.RunCompaction{ID: fixedID("7Q0C4WYK"), Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"keep_tokens":8000}`)}}); err != nil {
		t.Fatal(err)
	}
	checkPicture(t, "../../docs/pictures/tree.svg", drawTree(ctx, c, first))
	cx, err := c.Context(ctx, first, api.GetContext{})
	if err != nil {
		t.Fatal(err)
	}
	checkPicture(t, "../../docs/pictures/context.svg", func(w io.Writer) error { return plot.Context(w, prose.Short(first), cx) })

	// Its sentences name figures of the pictures.
	figure := regexp.MustCompile(`\d+,\d{3}`)
	for _, about := range []struct{ page, sentence, picture string }{{"README.md", "turns from 64,549", "tree.svg"}, {"docs/GUIDE.md", "A bar of 29,200", "context.svg"}} {
		drawn, err := os.ReadFile("../../docs/pictures/" + about.picture)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile("../../" + about.page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(page), about.sentence)
		if !ok {
			t.Fatalf("%s has no sentence %q", about.page, about.sentence)
		}
		line, _, _ := strings.Cut(rest, "\n")
		for _, n := range figure.FindAllString(line, -1) {
			if n != "40,000" && !strings.Contains(string(drawn), n) { // that is the window
				t.Errorf("%s says %s, %s does not", about.page, n, about.picture)
			}
		}
	}
}
