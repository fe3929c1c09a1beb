package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/engine/erasure"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// eraseSession erases a session, and waits until every store says so.
func eraseSession(t *testing.T, c *client.Client, id turns.ID) *api.Receipt {
	t.Helper()
	for range 4000 {
		r := must[*api.Receipt](t)(c.As(api.Operator).Erase(t.Context(), id, api.EraseSession{Ground: "request-7"}))
		if r.Done {
			return r
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("it is never done")
	return nil
}

// An erasure outlives the process, and is on a signed list in the data folder and elsewhere.
func TestAnErasureIsListed(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	cfg := config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", Checkpoint: config.CheckpointTable{Out: []string{out}}}
	d, c := startWith(t, cfg)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	must[*api.Appended](t)(c.Append(t.Context(), s.ID, says("saffron")))
	eraseSession(t, c, s.ID)
	list := must[erasure.List](t)(folder.ReadErasures(filepath.Join(dir, folder.ErasuresFile)))
	if len(list.Rows) != 1 || list.Rows[0].Session != s.ID || list.Rows[0].Ground != "request-7" || list.Key != d.signer.Public() || list.Key == "" {
		t.Errorf("the list: %+v", list)
	}
	if other := listWithin(t, filepath.Join(out, "nexus-"+d.storage.Log.Ledger()+".erasures")); len(other.Rows) != 1 {
		t.Errorf("elsewhere: %+v", other)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, c = startWith(t, cfg)
	if got := must[*api.Session](t)(c.Session(t.Context(), s.ID)); got.State != "erased" {
		t.Errorf("after a start: %+v", got)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); !v.OK || v.Erased == 0 {
		t.Errorf("verify: %+v", v)
	}
	eraseSession(t, c, s.ID) // what a start has open later is done again
}

// A list that is damaged stops no start: it is set aside, and made anew from the log. A folder elsewhere that was away gets the
// newest list at the next start.
func TestADamagedListOfErasuresIsMadeAnew(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "away")
	cfg := config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", Checkpoint: config.CheckpointTable{Out: []string{out}}}
	d, c := startWith(t, cfg)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 1)
	eraseSession(t, c, s.ID)
	stop(t, d, c)
	change(t, filepath.Join(dir, folder.ErasuresFile), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	d, c = startWith(t, cfg)
	for _, name := range []string{filepath.Join(dir, folder.ErasuresFile), filepath.Join(out, "nexus-"+d.storage.Log.Ledger()+".erasures")} {
		if list := listWithin(t, name); len(list.Rows) != 1 || list.Rows[0].Session != s.ID {
			t.Errorf("%s: %+v", name, list)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, folder.ErasuresFile+".damaged")); err != nil {
		t.Error(err)
	}
	verified(t, c)
}

// listWithin reads a list that is being written.
func listWithin(t *testing.T, name string) (list erasure.List) {
	t.Helper()
	for range 4000 {
		var err error
		if list, err = folder.ReadErasures(name); err == nil && len(list.Rows) > 0 {
			return list
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s has no row after 80 s", name)
	return list
}

// A backup from before an erasure does not bring the session back where a newer list, or a newer file of keys, lies beside
// it; without one the restore says so.
func TestARestoreKeepsErasures(t *testing.T) {
	dir := t.TempDir()
	_, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	must[*api.Appended](t)(c.Append(t.Context(), s.ID, says("saffron")))
	kept := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	must[*api.Appended](t)(c.Append(t.Context(), kept.ID, says("cobalt")))
	older := t.TempDir()
	cfg, _ := backUp(t, c.As(api.Operator), older)
	eraseSession(t, c, s.ID)
	newer, _ := backUp(t, c.As(api.Operator), t.TempDir())

	_, without := restoreTo(t, cfg)
	if without.ErasuresFrom != "" || without.Erased != 0 || !strings.Contains(without.Text(), "can be read again") {
		t.Errorf("without a list: %+v", without)
	}
	for name, from := range map[string]string{"erasures": filepath.Join(dir, folder.ErasuresFile), "newer.keys": newer.Keys} {
		beside := filepath.Join(older, name)
		if err := os.WriteFile(beside, must[[]byte](t)(os.ReadFile(from)), 0o600); err != nil {
			t.Fatal(err)
		}
		restored, out := restoreTo(t, cfg)
		if out.ErasuresFrom != beside || out.Erased != 1 {
			t.Errorf("%s: %+v", name, out)
		}
		_, r := start(t, restored)
		if got := must[*api.Session](t)(r.Session(t.Context(), s.ID)); got.State != "erased" {
			t.Errorf("%s: restored, it is %+v", name, got)
		}
		if got := must[*api.Context](t)(r.Context(t.Context(), kept.ID, api.GetContext{})); len(got.Messages) == 0 {
			t.Errorf("%s: the other session lost what it said", name)
		}
		if v := must[*api.Verified](t)(r.As(api.Operator).Verify(t.Context())); !v.OK {
			t.Errorf("%s: %+v", name, v.Problems)
		}
		if err := os.Remove(beside); err != nil {
			t.Fatal(err)
		}
	}
}

// A backup from before a redaction does not bring the text back where a newer list lies beside it: the first start takes the whole turn out.
func TestARestoreKeepsRedactions(t *testing.T) {
	dir := t.TempDir()
	_, c := start(t, dir)
	ctx := t.Context()
	s := must[*api.Session](t)(c.Create(ctx, api.CreateSession{}))
	leaked := must[*api.Appended](t)(c.Append(ctx, s.ID, says("the saffron-word is dear")))
	must[*api.Appended](t)(c.Append(ctx, s.ID, says("cobalt")))
	older := t.TempDir()
	cfg, _ := backUp(t, c.As(api.Operator), older)
	must[*api.Redacted](t)(c.As(api.Operator).Redact(ctx, s.ID, api.RedactTurn{Text: "saffron-word", Ground: "leak-1"}))
	newer, _ := backUp(t, c.As(api.Operator), t.TempDir())
	if b := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, folder.ErasuresFile)))); !strings.Contains(b, s.ID.String()+"/"+leaked.ID.String()+" ") || !strings.Contains(b, " leak-1\n") {
		t.Errorf("the list: %s", b)
	}

	restored, _ := restoreTo(t, newer)
	_, r := start(t, restored)
	if got := must[*api.Turn](t)(r.Turn(ctx, s.ID, leaked.ID)); got.Messages[0].Parts[0].Content != "the [redacted] is dear" {
		t.Errorf("a backup from behind it: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(older, folder.ErasuresFile), must[[]byte](t)(os.ReadFile(filepath.Join(dir, folder.ErasuresFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	restored, out := restoreTo(t, cfg)
	if out.ErasuresFrom == "" {
		t.Errorf("restored: %+v", out)
	}
	_, r = start(t, restored)
	if got := must[*api.Turn](t)(r.Turn(ctx, s.ID, leaked.ID)); got.Messages[0].Parts[0].Content != "[redacted]" {
		t.Errorf("a backup from before it: %+v", got)
	}
	if got := must[*api.Context](t)(r.Context(ctx, s.ID, api.GetContext{})); strings.Contains(fmt.Sprintf("%s", got.Messages), "saffron") || !strings.Contains(fmt.Sprintf("%s", got.Messages), "cobalt") {
		t.Errorf("the context: %+v", got.Messages)
	}
	if v := must[*api.Verified](t)(r.As(api.Operator).Verify(ctx)); !v.OK {
		t.Errorf("%+v", v.Problems)
	}
}

// says is a turn of the user alone.
func says(text string) api.AppendTurn {
	return api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}}
}

// Events of answers that an earlier daemon of the folder kept go with their session, also where /v1 is not served now.
func TestAnErasureRemovesAnswersWithoutHTTP(t *testing.T) {
	dir := t.TempDir()
	d, c := startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off"})
	var names []string
	var sessions []*api.Session
	if err := os.MkdirAll(filepath.Join(dir, "spool"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
		turn := must[*api.Appended](t)(c.Append(t.Context(), s.ID, says("saffron")))
		name := filepath.Join(dir, "spool", "resp_"+s.ID.String()+turn.ID.String()+".spool")
		if err := os.WriteFile(name, []byte("events"), 0o600); err != nil {
			t.Fatal(err)
		}
		names, sessions = append(names, name), append(sessions, s)
	}
	eraseSession(t, c, sessions[0].ID)
	if _, err := os.Stat(names[0]); !os.IsNotExist(err) {
		t.Errorf("the answer of the erased session: %v", err)
	}
	if _, err := os.Stat(names[1]); err != nil {
		t.Errorf("the answer of the other one: %v", err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
