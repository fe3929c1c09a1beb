package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/cmd/internal/daemon/storage"
	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// The server of a daemon comes back with an older copy of its disk. The daemon, which ran all the
// time, halts, names each lost turn, and still gives them; it starts again only once an
// operator gave them up, and then on the log as it is.
func TestADaemonHaltsWhereTheLogCameBackShorter(t *testing.T) {
	dir, address := t.TempDir(), &net.TCPAddr{Port: server.RANDOM_PORT}
	var s *server.Server
	start := func() {
		t.Helper()
		s = natsServer(t, func(o *server.Options) { o.StoreDir, o.Port = filepath.Join(dir, "now"), address.Port })
		address = s.Addr().(*net.TCPAddr)
	}
	stop := func() { s.Shutdown(); s.WaitForShutdown() }
	start()
	url, data := s.ClientURL(), t.TempDir()
	cfg := config.Config{Plaintext: true, NATS: url, Replicas: 1, Create: true, Data: data, HTTP: "127.0.0.1:0"}
	d := must[*Daemon](t)(Open(t.Context(), cfg))
	nc := must[*nats.Conn](t)(nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)))
	defer nc.Close()
	c := client.New(nc, "default", "main")
	session := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID
	kept := extend(t, c, session, 3)
	stop()
	if err := os.CopyFS(filepath.Join(dir, "then"), os.DirFS(filepath.Join(dir, "now"))); err != nil {
		t.Fatal(err)
	}
	start()
	other := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID
	last := extend(t, c, session, 2)
	stop()
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "now")), os.Rename(filepath.Join(dir, "then"), filepath.Join(dir, "now"))); err != nil {
		t.Fatal(err)
	}
	start()
	retry := api.AppendTurn{ID: last.ID, Messages: []turns.Message{turns.TextMessage(turns.User, "the same id, which the projections know")}}
	for _, r := range []api.AppendTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, "on top")}}, retry} {
		for until := time.Now().Add(untilTheTestEnds(t)); ; {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the daemon connects again, too
			a, err := c.Append(ctx, session, r)
			cancel()
			if err == nil {
				t.Fatalf("acknowledged over lost turns: %+v", a)
			}
			if errors.Is(err, ledger.ErrCorrupt) {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("append: %v, want corrupt", err)
			}
		}
	}
	d.storage.AwaitLoss()
	// Reads go on, and give the lost turns too.
	if got := must[*api.Turn](t)(c.Turn(t.Context(), session, last.ID)); got.ID != last.ID {
		t.Errorf("the lost turn reads %+v", got)
	}
	if got := must[*api.Session](t)(c.Session(t.Context(), session)); got.Depth != 5 {
		t.Errorf("the session has %d turns, want 5", got.Depth)
	}
	v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context()))
	if v.OK || v.Count != 3 || !slices.ContainsFunc(v.Problems, func(p api.Problem) bool { return p.Event == last.ID && p.Session == session }) {
		t.Errorf("verify: %+v", v)
	}
	if v := must[*api.Verified](t)(c.Verify(t.Context(), session)); v.OK || v.Count != 2 {
		t.Errorf("verify of the session: %+v", v)
	}
	r := must[*http.Response](t)(http.Get(d.HTTPURL() + "/readyz"))
	if r.Body.Close(); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", r.StatusCode)
	}
	loss := must[*folder.Loss](t)(folder.LoadLoss(data))
	var named []string
	for _, r := range loss.Records {
		named = append(named, fmt.Sprint(r.Seq, r.Kind, r.Session))
	}
	end := must[uint64](t)(page.ParsePosition(kept.Position))
	want := []string{fmt.Sprint(end+1, "opened", other), fmt.Sprint(end+2, "turn", session), fmt.Sprint(end+3, "turn", session)}
	if !slices.Equal(named, want) || loss.Ledger != d.storage.Log.Ledger() {
		t.Errorf("%s names %q, want %q", folder.LostFile, named, want)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}

	refused := func(how string) {
		t.Helper()
		var lossErr *folder.LossError
		d, err := Open(t.Context(), cfg)
		if !errors.As(err, &lossErr) || len(lossErr.Loss.Records) != 3 || !strings.Contains(err.Error(), "nexusd repair") {
			t.Errorf("start %s: %v", how, err)
		}
		if err == nil {
			_ = d.Close(t.Context())
		}
	}
	refused("with the file of the loss")
	// A daemon that was killed before it wrote the file finds the same.
	if err := os.Remove(filepath.Join(data, folder.LostFile)); err != nil {
		t.Fatal(err)
	}
	refused("without the file")
	compare := mend.CompareConfig{Data: data, NATS: url}
	out, err := mend.CompareLog(t.Context(), compare)
	if lossErr := (*folder.LossError)(nil); !errors.As(err, &lossErr) || len(out.Loss.Records) != 3 || out.Last != end || out.Aside != "" {
		t.Errorf("compared: %+v, %v", out, err)
	}
	compare.AcceptLoss = true
	if out, err = mend.CompareLog(t.Context(), compare); err != nil || out.Aside == "" {
		t.Fatalf("given up: %+v, %v", out, err)
	}
	accepted := must[map[mark.Place]bool](t)(folder.AcceptedLosses(data))
	for _, r := range loss.Records {
		if !accepted[mark.Place{Seq: r.Seq, Sum: r.Hash}] {
			t.Errorf("what was given up is not known: %v", r)
		}
	}
	if again, err := mend.CompareLog(t.Context(), compare); err != nil || again.Aside != "" || len(again.Loss.Records) != 0 {
		t.Errorf("compared once more: %+v, %v", again, err)
	}
	d = must[*Daemon](t)(Open(t.Context(), cfg))
	if got := must[*api.Session](t)(c.Session(t.Context(), session)); got.Depth != 3 || *got.Head != kept.ID {
		t.Errorf("the session has %d turns, want the 3 that are left", got.Depth)
	}
	// Who misses what was given up halts nobody.
	for _, r := range loss.Records {
		says := fmt.Sprintf(`{"daemon":"other","seq":"%d","hash":"%v","lost":true}`, r.Seq, r.Hash)
		must[*nats.Msg](t)(nc.Request(storage.PeersPrefix+d.storage.Log.Ledger(), []byte(says), untilTheTestEnds(t))) // it answers once it has heard
	}
	extend(t, c, session, 1)
	if err := d.storage.Log.Confirm(t.Context()); err != nil {
		t.Errorf("a loss that was given up counts again: %v", err)
	}
	if v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context())); !v.OK {
		t.Errorf("verify after it: %+v", v)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
