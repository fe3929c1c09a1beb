package files

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// filesWith returns the files of a folder that have a text, unpacked.
func filesWith(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if err == nil && strings.HasSuffix(name, ".gz") {
			z, zerr := gzip.NewReader(bytes.NewReader(b))
			if zerr != nil {
				return zerr
			}
			b, err = io.ReadAll(z)
		}
		if bytes.Contains(b, []byte(text)) {
			names = append(names, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// chatty is a session of a policy whose files have a word in each place that a file of its design can have one.
func chatty(t *testing.T, e *engine.Engine, policy, word string) turns.ID {
	t.Helper()
	s := open(t, e, policy)
	if policy == "gsv" {
		s = session(t, e, `{}`)
	}
	for i := range 40 {
		r := enginetest.Say(fmt.Sprintf("%s question %d %s", word, i, enginetest.Text(900)), "")
		r.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: fmt.Sprint("c", i), Name: "run", Arguments: turns.Raw(`{}`)}}}
		enginetest.Add(t, e, s.ID, r)
		r = api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: fmt.Sprint("c", i), Response: enginetest.JSON(word + " result")}}}}}
		answer := turns.TextMessage(turns.Assistant, word+" answer")
		r.Response = &answer
		enginetest.Add(t, e, s.ID, r)
		must(e.Contexts.Context(t.Context(), enginetest.Alice, s.ID, api.GetContext{}))(t)
	}
	return s.ID
}

// What was said in an erased session is in no file beside the ledger, in none of its forks' either, whatever change of the
// disk a process died before. What others said stays.
func TestAnErasedSessionIsInNoFile(t *testing.T) {
	for _, policy := range []string{"gsv", "autobyteus", "wolffish"} {
		t.Run(policy, func(t *testing.T) {
			e := learns(t, func() time.Time { return noon })
			gone, kept := chatty(t, e, policy, "saffron"), chatty(t, e, policy, "cobalt")
			head := must(e.Reader.Get(t.Context(), enginetest.Alice, gone, api.Read{}))(t).Head
			fork := must(e.Forks.Fork(t.Context(), enginetest.Alice, gone, api.CreateFork{Turn: *head}, []byte("{}")))(t)
			enginetest.Add(t, e, fork.ID, enginetest.Say("cobalt in the fork", "cobalt answer"))
			must(e.Sessions.CloseSession(t.Context(), enginetest.Alice, fork.ID, api.CloseSession{}, nil))(t)
			note1(t, e, api.SaveMemory{Text: "saffron is dear", Session: gone})
			note1(t, e, api.SaveMemory{Text: "cobalt is blue", Session: kept})
			text := "saffron in the document"
			must(e.Memories.Document(t.Context(), enginetest.Alice, api.MemoryDocument{Text: &text, If: "0", Sources: []api.TurnName{{Session: gone, Turn: *head}}}, []byte("{}")))(t)
			applied(t, e, gone, kept, fork.ID)
			dir := t.TempDir()
			x := exporter(t, e, dir)
			x.Pass(t.Context(), true)
			if before := filesWith(t, dir, "saffron"); len(before) == 0 {
				t.Fatal("no file has the word before")
			} else {
				t.Logf("before: %v", before)
			}
			kepts := len(filesWith(t, dir, "cobalt"))
			receipt := must(e.Erasure.Erase(t.Context(), enginetest.Operator, gone, api.EraseSession{}))(t)
			at := must(e.Reader.Projections.Session(gone))(t).Tail.Seq
			if receipt.Erased == nil || x.Reached(gone, at) {
				t.Fatalf("before the pass: %+v, reached %v", receipt, x.Reached(gone, at))
			}
			crashes := 0
			for ; ; crashes++ { // die before each change of the disk, one after the other
				step := 0
				x.root.fault = func() error {
					if step++; step > crashes {
						return errCrash
					}
					return nil
				}
				x.Pass(t.Context(), true)
				x.root.fault = nil
				if err := x.root.Close(); err != nil {
					t.Fatal(err)
				}
				done := x.Reached(gone, at)
				x = exporter(t, e, dir)
				if done {
					break
				}
				if crashes > 2000 {
					t.Fatal("it never ends")
				}
			}
			x.Pass(t.Context(), true)
			if left := filesWith(t, dir, "saffron"); len(left) > 0 {
				t.Errorf("after %d crashes these files have it: %v", crashes, left)
			}
			if n := len(filesWith(t, dir, "cobalt")); n < kepts {
				t.Errorf("%d files have what others said, %d had it", n, kepts)
			}
			if crashes < 5 {
				t.Errorf("only %d changes of the disk", crashes)
			}
		})
	}
}

// Files wait for the key of an erased session: what is written while it is there could be read from it, and nothing would
// come to remove it.
func TestFilesWaitForTheKeyOfAnErasedSession(t *testing.T) {
	e := learns(t, func() time.Time { return noon })
	id, dir := chatty(t, e, "gsv", "saffron"), t.TempDir()
	keys := e.Store.Keys
	e.Store.Keys = keysThatStay{keys}
	if _, err := e.Erasure.Erase(t.Context(), enginetest.Operator, id, api.EraseSession{}); err == nil {
		t.Fatal("the key stays, and nobody says so")
	}
	at := must(e.Reader.Projections.Session(id))(t).Tail.Seq
	x := exporter(t, e, dir)
	if x.Pass(t.Context(), true); x.Reached(id, at) {
		t.Error("the files are said to be those of an erased session")
	}
	e.Store.Keys = keys
	if _, err := e.Erasure.Erase(t.Context(), enginetest.Operator, id, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
	if x.Pass(t.Context(), true); !x.Reached(id, at) {
		t.Error("the files are not said to be those of an erased session")
	}
	if left := filesWith(t, dir, "saffron"); len(left) > 0 {
		t.Errorf("these files have it: %v", left)
	}
}

// keysThatStay has a disk on which no key can be destroyed.
type keysThatStay struct{ content.Keys }

func (keysThatStay) Destroy(...turns.ID) error { return errors.New("the disk is full") }
