package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == plainCommand { // the tests start this binary as the program starts itself
		if err := servePlain(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// short returns a run with tiny settings in a folder of its own.
func short(t *testing.T) *run {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // PostgreSQL runs as another user
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return &run{config: config{rounds: 1, each: 200 * time.Millisecond, clients: []int{3}, agents: 2, turnBytes: 512, lineageTurns: 400, lineageForks: 20, forkTurns: 10, importMB: 5,
		data: "../../../shared/data/claude-code-entire-cli"}, log: t.Output(), bin: binaries{dir: t.TempDir()}, dir: dir, groups: map[int]float64{}}
}

// Every peer that is there stores what it acknowledges: measure reads each turn back, with its content.
func TestEveryPeerStoresWhatItAcknowledges(t *testing.T) {
	r := short(t)
	var res results
	if err := r.appends(t.Context(), &res); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.failed {
		t.Error(f)
	}
	if len(res.Appends)+len(r.skips) != len(peers) {
		t.Errorf("%d peers were measured and %d skipped, of %d", len(res.Appends), len(r.skips), len(peers))
	}
	for _, m := range res.Appends {
		if m.Appends < 1 || m.Rate <= 0 || m.P50 <= 0 || m.P99 < m.P50 || m.P999 < m.P99 || m.CPU <= 0 || m.Relative <= 0 {
			t.Errorf("%+v", m)
		}
		t.Logf("%s: %d appends, %.3f fsyncs each", m.System, m.Appends, m.Fsyncs)
		// A lone fsync may serve all clients of a group, never more.
		if m.Fsyncs >= 0 && m.Fsyncs < 1.0/3 && m.System != "langgraph-default" {
			t.Errorf("%s: %.3f fsyncs for each append of 3 clients: an acknowledgement does not mean a fsync", m.System, m.Fsyncs)
		}
	}
}

// recalledBytes is what a peer reads of a session: the newest turns, or LangGraph the whole state.
func recalledBytes(peer string, ts []turn, last int) (n int) {
	if strings.HasPrefix(peer, "langgraph") {
		last = len(ts)
	}
	for _, t := range ts[len(ts)-last:] {
		switch peer {
		case "langgraph", "langgraph-postgres", "adk", "adk-default": // they count text
			n += len(t.question) + len(t.answer)
		case "postgres-jsonb": // a space behind each of 10 colons and 5 commas
			n += len(t.json()) + 15
		default:
			n += len(t.json())
		}
	}
	return n
}

// Each peer gives an agent its newest turns, and no others; LangGraph all.
func TestEachPeerRecallsTheNewestTurns(t *testing.T) {
	r := short(t)
	l := r.load(2)
	const depth, last = 12, 5
	for _, name := range agentPeers {
		t.Run(name, func(t *testing.T) {
			p := peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == name })]
			dir := filepath.Join(r.dir, "recall-"+name)
			if err := os.Mkdir(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			opened, err := p.open(t.Context(), r, l, filepath.Join(dir, "data"))
			var why skipped
			if errors.As(err, &why) {
				t.Skip(why)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := opened.close(); err != nil {
					t.Error(err)
				}
			}()
			s := opened.(recaller)
			ledger, compacts := opened.(*nexusLedger)
			if compacts {
				if err := ledger.prepareAgents(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := atOnce(2, func(c int) error { return fillSession(t.Context(), s, c, depth-1-c) }); err != nil {
				t.Fatal(err)
			}
			if err := s.append(t.Context(), 1, depth-1, agentTurn(1, depth-1)); err != nil {
				t.Fatal(err)
			}
			var ts []turn
			for i := range depth {
				ts = append(ts, agentTurn(1, i+1))
			}
			before := recalledBytes(name, ts[:depth-1], last)
			if got, err := s.recall(t.Context(), 1, last); err != nil || !compacts && got != before {
				t.Errorf("%d bytes, want %d: %v", got, before, err)
			}
			recall, add, read, err := turnOf(t.Context(), s, 1, depth)
			if err != nil || recall <= 0 || add <= 0 {
				t.Fatalf("a turn took %v and %v: %v", recall, add, err)
			}
			got, err := s.recall(t.Context(), 1, last)
			if err != nil {
				t.Fatal(err)
			}
			if compacts {
				if next := ts[depth-1]; got < len(next.question) || got > 2*len(next.json()) {
					t.Errorf("%d bytes after a turn of %d", got, len(next.json()))
				}
				return
			}
			if _, whole := s.(wholeTurn); whole && read != before {
				t.Errorf("the turn read %d bytes, want %d", read, before)
			}
			if want := recalledBytes(name, ts, last); got != want {
				t.Errorf("%d bytes after a turn, want %d", got, want)
			}
		})
	}
}

// Agents of Zipf's load share sessions, and each peer is asked for the same ones.
func TestSessionsOfAgentsAreDrawn(t *testing.T) {
	own := agentLoad{depth: 1, sessions: 1}
	shared := agentLoad{depth: 1, sessions: 8, zipf: 1.1}
	counts := make([]int, 32)
	for w := range 4 {
		if got := own.draws(w, 4); !slices.Equal(slices.Compact(slices.Clone(got)), []int{w}) || len(got) != agentEach {
			t.Errorf("agent %d has %v, not its own session", w, got)
		}
		got := shared.draws(w, 4)
		if !slices.Equal(got, shared.draws(w, 4)) || len(got) != agentEach {
			t.Errorf("agent %d has %v, and then others", w, got)
		}
		for _, c := range got {
			counts[c]++
		}
	}
	used := 32 - len(slices.DeleteFunc(slices.Clone(counts), func(n int) bool { return n > 0 }))
	if counts[0] < 10 || counts[0] > 40 || used < 8 {
		t.Errorf("turns of each session: %v", counts)
	}
}

// Two rounds of the agents' work measure what was asked for, and its table has a row for each.
func TestTheAgentsWorkMeasuresTheNamedPeers(t *testing.T) {
	before := agentLoads
	defer func() { agentLoads = before }()
	agentLoads = []agentLoad{{depth: 11, sessions: 1}, {depth: 3, sessions: 2, zipf: 1.1}}
	r := short(t)
	r.only, r.rounds = []string{"agents", "sqlite", "jsonl"}, 2
	res := results{load: r.load(0)}
	if err := r.measure(t.Context(), &res); err != nil {
		t.Fatal(err)
	}
	if len(r.failed)+len(r.skips) > 0 || len(res.Appends) > 0 || len(res.Agents) != 4 {
		t.Fatalf("failed %v, skipped %v, %d appends, %d rows of agents", r.failed, r.skips, len(res.Appends), len(res.Agents))
	}
	for _, a := range res.Agents {
		if a.Turns != 2*2*agentEach || a.Turn50 <= 0 || a.Turn99 < a.Turn50 || a.CPU <= 0 || a.Disk <= 0 || a.Read <= 0 || a.Relative != 0 {
			t.Errorf("%+v", a)
		}
	}
	var out strings.Builder
	if err := res.markdown(&out, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 11 | its own | sqlite |", "| 3 | Zipf 1.1 of 2 sessions an agent | jsonl |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
}

// The answers of a process come to who asked, in any order; its end ends each wait.
func TestAnswersOfAPeerProcess(t *testing.T) {
	echo, err := startPeer(exec.Command("sh", "-c", "echo '{\"mode\":\"wal\"}'; exec cat"), new(sqliteLevel))
	if err != nil {
		t.Fatal(err)
	}
	if err := atOnce(20, func(c int) error {
		var got struct {
			Client int `json:"client"`
		}
		err := echo.ask(t.Context(), map[string]any{"client": c, "text": strings.Repeat("x", 100_000)}, &got)
		if err == nil && got.Client != c {
			err = fmt.Errorf("%d has the answer of %d", c, got.Client)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := echo.ask(t.Context(), map[string]any{"error": "it refused"}, nil); err == nil || err.Error() != "it refused" {
		t.Error(err)
	}
	if err := echo.close(); err != nil {
		t.Error(err)
	}
	dies, err := startPeer(exec.Command("sh", "-c", "echo '{}'; read x; echo no luck >&2; exit 1"), new(sqliteLevel))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := dies.ask(t.Context(), map[string]any{}, nil); err == nil || !strings.Contains(err.Error(), "answers no more") {
			t.Error(err)
		}
	}
	if err := dies.close(); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Error(err)
	}
}

// The check of each peer finds a turn that is missing, one that is too many and one with other
// content. It can't be passed by a peer that loses rows.
func TestTheCheckOfEachPeerFindsLostTurns(t *testing.T) {
	r := short(t)
	l := r.load(2)
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			dir := filepath.Join(r.dir, "check-"+p.name)
			if err := os.Mkdir(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			s, err := p.open(t.Context(), r, l, filepath.Join(dir, "data"))
			var why skipped
			if errors.As(err, &why) {
				t.Skip(why)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			stored := make([]int, 2)
			if b, ok := s.(bulk); ok {
				if _, err := b.run(t.Context(), l, 50*time.Millisecond, stored); err != nil {
					t.Fatal(err)
				}
			} else {
				for i := 1; i <= 3; i++ {
					for c := range stored {
						if err := s.append(t.Context(), c, i, l.turn(c, i)); err != nil {
							t.Fatal(err)
						}
						stored[c]++
					}
				}
			}
			if err := s.check(t.Context(), l, stored); err != nil {
				t.Fatalf("everything is there: %v", err)
			}
			for _, wrong := range [][]int{{stored[0] + 1, stored[1]}, {stored[0], stored[1] + 1}, {stored[0], stored[1] - 1}} {
				if err := s.check(t.Context(), l, wrong); err == nil {
					t.Errorf("%v turns are stored, and the check passes for %v", stored, wrong)
				}
			}
			other := l
			other.bytes += 2
			if _, ok := s.(bulk); !ok && s.check(t.Context(), other, stored) == nil {
				t.Error("the check passes for turns with other content")
			}
		})
	}
}

func TestForestsHaveTheirTurnsAndForks(t *testing.T) {
	for _, deep := range []bool{false, true} {
		f := plant(1000, 30, deep, rand.New(rand.NewPCG(1, 1)))
		if len(f.parent) != 1000 || f.session[999] != 30 {
			t.Errorf("deep %v: %d turns, %d forks", deep, len(f.parent), f.session[len(f.session)-1])
		}
		for i, p := range f.parent {
			if p >= i || p < 0 != (i == 0) || i > 0 && f.depth[i] != f.depth[p]+1 {
				t.Fatalf("turn %d at depth %d has parent %d", i, f.depth[i], p)
			}
		}
	}
}

// lineageOf compares each answer of Nexus with SQLite's; here both with a walk over the links.
func TestBothStoresAnswerAsAWalkOverTheLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f := plant(300, 40, true, rng)
	p, err := project(t.Context(), f, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}()
	q, err := link(t.Context(), f, p.refs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer q.db.Close()
	for range 500 {
		a, b := rng.IntN(300), rng.IntN(300)
		above := map[int]bool{}
		for x := a; x >= 0; x = f.parent[x] {
			above[x] = true
		}
		base := b
		for !above[base] {
			base = f.parent[base]
		}
		is := false
		for x := b; x >= 0; x = f.parent[x] {
			is = is || x == a
		}
		for _, s := range []forestStore{p, q} {
			if got, err := s.mergeBase(a, b); err != nil || got != p.refs[base].Turn.String() {
				t.Fatalf("%T: merge base of %d and %d: %s, %v, want %d", s, a, b, got, err, base)
			}
			if got, err := s.isAncestor(a, b); err != nil || got != is {
				t.Fatalf("%T: is %d an ancestor of %d: %v, %v, want %v", s, a, b, got, err, is)
			}
		}
	}
}

func TestTheOtherWorksAndTheReport(t *testing.T) {
	r := short(t)
	r.only = []string{"fork", "context", "lineage", "transcripts", "import"}
	res := results{Command: "go run .", load: r.load(0)}
	if err := r.measure(t.Context(), &res); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.failed {
		t.Error(f)
	}
	if len(res.Requests) != 2 || len(res.Lineage) != 4 {
		t.Errorf("%+v", res)
	}
	for _, v := range append(res.Requests, res.Lineage...) {
		if v.P50 <= 0 || v.Than50 <= 0 || v.Samples < 20 {
			t.Errorf("%+v", v)
		}
	}
	if len(r.skips) == 0 && (len(res.Transcripts) != 8 || res.Transcripts[3].Bytes == 0) {
		t.Errorf("%+v", res.Transcripts)
	}
	if i := res.Import; len(r.skips) == 0 && (i == nil || i.Turns < 100 || i.Bytes < 1e6 || i.Memory == 0 || i.Server == 0 || i.Fsyncs == 0 || i.Verified == "") {
		t.Errorf("%+v", i)
	}
	res.Import = &imported{Files: 1234, Bytes: 5e6, Took: 2 * time.Second, Verified: "fine"}
	res.Appends = []measured{{System: "nexus", Clients: 3, Rate: 1234567, Relative: 1, Lowest: 1, Highest: 1, Fsyncs: -1}, {System: "jsonl", Clients: 3, Rate: 10, Relative: 100, Fsyncs: 1}}
	dir := t.TempDir()
	if err := res.write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"results.md":    {"| nexus | 1,234,567 | 1.00 (1.00 to 1.00) |", "| — |", "appends-3.svg", "fork.create at a random depth", "merge base", "1,234 files", "2.5 MB/s"},
		"appends-3.svg": {"<svg", "1,234,567", "</svg>"},
		"lineage.svg":   {"deep, merge base", "</svg>"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(b), w) {
				t.Errorf("%s lacks %q:\n%s", name, w, b)
			}
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--rounds=0"}, {"--seconds=0"}, {"--clients=1,x"}, {"--clients=0"}, {"--import-mb=0"}, {"--only=nothing"}, {"--lineage-turns=10"}, {"--agent-loads=10"}, {"more"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	c, err := parse([]string{"--only", "sqlite,lineage"}, io.Discard)
	if err != nil || !c.wants("appends") || !c.wants("sqlite") || c.wants("nexus") || !c.wants("lineage") || c.wants("fork") || c.wants("agents") {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = parse([]string{"--only", "agents,sqlite"}, io.Discard)
	if err != nil || c.wants("appends") || !c.wants("agents") || !c.wants("sqlite") || c.wants("nexus") {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = parse([]string{"--only", "agents"}, io.Discard)
	if err != nil || c.wants("appends") || !c.wants("agents") || !c.wants("nexus") {
		t.Errorf("%+v, %v", c, err)
	}
}

// A peer that can't run here is said, and the others are measured.
func TestAPeerThatIsNotThereIsSaid(t *testing.T) {
	r := short(t)
	before := peers
	defer func() { peers = before }()
	peers = []peer{{name: "absent", base: "absent", open: func(context.Context, *run, load, string) (system, error) { return nil, skipped("it is not installed") }},
		{name: "jsonl", base: "jsonl", open: openFiles}}
	var res results
	if err := r.appends(t.Context(), &res); err != nil {
		t.Fatal(err)
	}
	if len(r.skips) != 1 || r.skips[0] != "absent: it is not installed" || len(res.Appends) != 1 || len(r.failed) != 0 {
		t.Errorf("skipped %v, failed %v, measured %+v", r.skips, r.failed, res.Appends)
	}
}

func TestARunLeavesNothingInItsFolder(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if err := command(t.Context(), []string{"--rounds=1", "--seconds=0.05", "--clients=2", "--only=jsonl", "--note=It is a test.", "--dir", dir}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go run . --clients=2 --only=jsonl --rounds=1 --seconds=0.05`", "**It is a test.**", "| jsonl |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), dir) {
		t.Errorf("the report names the folder:\n%s", &out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAClosedSlowDiskIsUnmounted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount file systems")
	}
	dir := t.TempDir()
	d := &layered{dir: dir}
	for n := range 2 {
		if err := d.add(t.Context(), int64(64-16*n)<<20); err != nil {
			var why skipped
			if err := d.close(); err != nil {
				t.Error(err)
			}
			if errors.As(err, &why) {
				t.Skip(why)
			}
			t.Fatal(err)
		}
	}
	if d.layers != 2 || d.dir != filepath.Join(dir, "mounted", "mounted") {
		t.Fatalf("%+v", d)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "mounted")); err != nil || len(left) > 0 {
		t.Errorf("after close: %v, %v", left, err)
	}
}

func TestTheReadmeDescribesEachPeer(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", p.name, p.is, p.not); !strings.Contains(string(readme), row) {
			t.Errorf("README.md lacks the row\n%s", row)
		}
	}
}

// A cluster may refuse a client's next publish while it still holds the last one as in flight.
func TestPublishRefusedForAWriteInFlightIsSentAgain(t *testing.T) {
	busy := fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"})
	moved := fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: 10071, Description: "wrong last sequence: 7"})
	for _, last := range []error{nil, moved, context.Canceled} {
		answers := []error{busy, busy, last, busy}
		ack, err := retryInFlight(func() (*jetstream.PubAck, error) {
			err := answers[0]
			answers = answers[1:]
			return &jetstream.PubAck{Sequence: uint64(len(answers))}, err
		})
		if err != last || ack.Sequence != 1 {
			t.Errorf("%v, %v, want the answer %v", ack, err, last)
		}
	}
}

func TestErrorsOfManyClientsAreToldOnce(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	if got := distinct([]error{nil, a, errors.New("a"), nil, b, a}); len(got) != 2 || got[0] != a || got[1] != b {
		t.Error(got)
	}
}
