package daemon

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
)

// damagedLedger is a backup of three runs. Session A has a turn in each run, B in the first,
// C opens in the second one and has its turns there and in the third, D is of the third.
type damagedLedger struct {
	cfg      backup.Config
	bytes    []byte
	sessions map[string]turns.ID
	turns    map[string]int // of each session
	frames   []frameAt
}

// frameAt is a frame of a backup.
type frameAt struct {
	at, size int
	kind     byte
	run      int
	seq      uint64
	session  string // whose event it is
}

func makeDamagedLedger(t *testing.T) *damagedLedger {
	t.Helper()
	d, c := start(t, t.TempDir())
	l := &damagedLedger{sessions: make(map[string]turns.ID), turns: make(map[string]int)}
	op := c.As(api.Operator)
	out := t.TempDir()
	add := func(name string, n int, text string) {
		if _, ok := l.sessions[name]; !ok {
			l.sessions[name] = must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID
		}
		for range n {
			m := turns.TextMessage(turns.Assistant, "answer")
			must[*api.Appended](t)(c.Append(t.Context(), l.sessions[name], api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}, Response: &m}))
			l.turns[name]++
		}
	}
	add("A", 2, "one")
	add("B", 2, "two")
	l.cfg, _ = backUp(t, op, out)
	add("A", 2, "three")
	add("C", 2, "four")
	add("C", 1, words(7, 900_000)) // a blob
	backUp(t, op, out)
	add("A", 1, "five")
	add("C", 1, "six")
	add("D", 2, "seven")
	backUp(t, op, out)
	stop(t, d, c)
	l.bytes = must[[]byte](t)(os.ReadFile(l.cfg.File))
	run := 0
	const head = 13
	for at := 16; at < len(l.bytes); {
		f := frameAt{at: at, size: head + int(binary.LittleEndian.Uint32(l.bytes[at+1:])), kind: l.bytes[at]}
		body := l.bytes[at+head : at+f.size]
		switch f.kind {
		case 'b':
			run++
		case 'l', 'c':
			f.seq = binary.LittleEndian.Uint64(body[8:])
			for name, id := range l.sessions {
				if f.kind == 'l' && bytes.Contains(body[30:30+binary.LittleEndian.Uint16(body[24:])], []byte(id.String())) {
					f.session = name
				}
			}
		}
		f.run = run
		l.frames = append(l.frames, f)
		at += f.size
	}
	return l
}

// find returns the n-th frame of a kind, run and session.
func (l *damagedLedger) find(t *testing.T, kind byte, run int, session string, n int) frameAt {
	t.Helper()
	for _, f := range l.frames {
		if f.kind == kind && f.run == run && (session == "" || f.session == session) {
			if n--; n < 0 {
				return f
			}
		}
	}
	t.Fatalf("no frame %c of run %d, session %s", kind, run, session)
	return frameAt{}
}

// restoreDamaged restores a damaged copy, and says so in each way that a user meets.
func (l *damagedLedger) restore(t *testing.T, changed []byte) (string, mend.Restored) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "damaged")
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	c := mend.RestoreConfig{File: file, Keys: l.cfg.Keys, Data: filepath.Join(dir, "restored")}
	if _, err := mend.Restore(t.Context(), c); codeOf(err) != api.Corrupt && codeOf(err) != api.Unsupported {
		t.Fatalf("without --accept-incomplete: %v", err)
	}
	c.AcceptIncomplete = true
	return c.Data, must[mend.Restored](t)(mend.Restore(t.Context(), c))
}

// Each frame of a backup of three runs is flipped. All sessions but the one whose event is
// lost are whole and take turns; verify names that one and nothing else.
func TestAFlippedByteLosesOneEventOfABackup(t *testing.T) {
	l := makeDamagedLedger(t)
	type flip struct {
		f      frameAt
		offset int // within the frame; negative: from its end
	}
	for name, test := range map[string]struct {
		flips  []flip
		lost   map[string]uint64 // events that a session has lost
		runs   []string
		unread string // a session whose content is lost with a chunk
	}{
		"a turn amid a session": {flips: []flip{{l.find(t, 'l', 2, "A", 0), -20}}, lost: map[string]uint64{"A": 1}, runs: []string{"whole", "damaged", "whole"}},
		"the head of a turn":    {flips: []flip{{l.find(t, 'l', 1, "A", 2), 2}}, lost: map[string]uint64{"A": 1}, runs: []string{"damaged", "whole", "whole"}},
		"an opening":            {flips: []flip{{l.find(t, 'l', 2, "C", 0), 200}}, lost: map[string]uint64{"C": 1}, runs: []string{"whole", "damaged", "whole"}},
		"the newest turn":       {flips: []flip{{l.find(t, 'l', 3, "D", 2), -1}}, lost: map[string]uint64{"D": 1}, runs: []string{"whole", "whole", "damaged"}},
		"two turns of two sessions": {flips: []flip{{l.find(t, 'l', 1, "B", 1), -20}, {l.find(t, 'l', 3, "C", 0), -20}}, lost: map[string]uint64{"B": 1, "C": 1},
			runs: []string{"damaged", "whole", "damaged"}},
		"a chunk of a blob":         {flips: []flip{{l.find(t, 'c', 2, "", 0), -30}}, runs: []string{"whole", "damaged", "whole"}, unread: "C"},
		"the first bytes":           {flips: []flip{{frameAt{at: 3}, 0}}, runs: []string{"damaged", "whole", "whole"}},
		"the beginning of a run":    {flips: []flip{{l.find(t, 'b', 1, "", 0), 40}}, runs: []string{"damaged", "whole", "whole"}},
		"the end of a run":          {flips: []flip{{l.find(t, 'e', 2, "", 0), 40}}, runs: []string{"whole", "damaged", "whole"}},
		"the end of the newest run": {flips: []flip{{l.find(t, 'e', 3, "", 0), 5}}, runs: []string{"whole", "whole", "damaged"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(l.bytes)
			for _, f := range test.flips {
				n := f.f.at + f.offset
				if f.offset < 0 {
					n += f.f.size
				}
				changed[n] ^= 0x04
			}
			data, got := l.restore(t, changed)
			text := got.Text()
			var states []string
			for _, r := range got.Salvage.Runs {
				states = append(states, r.State)
			}
			if !slices.Equal(states, test.runs) {
				t.Errorf("runs are %v, want %v\n%s", states, test.runs, text)
			}
			lost := make(map[string]uint64)
			for _, chain := range got.Salvage.Chains {
				for name, id := range l.sessions {
					if chain.Chain.ID == id.String() {
						lost[name] += chain.Lost
					}
				}
			}
			events := uint64(0)
			for session, n := range test.lost {
				if events += n; lost[session] != n || !strings.Contains(text, l.sessions[session].String()) {
					t.Errorf("session %s has lost %d, want %d\n%s", session, lost[session], n, text)
				}
			}
			if len(lost) != len(test.lost) || got.Salvage.LostEvents != events || (got.Salvage.LostChunks > 0) != (test.unread != "") {
				t.Errorf("lost %v\n%s", lost, text)
			}
			for _, loss := range got.Salvage.Content {
				if loss.Chain.ID != l.sessions["C"].String() {
					t.Errorf("content of %+v is lost", loss)
				}
			}
			if (len(got.Salvage.Content) == 1) != (test.unread != "") {
				t.Errorf("content: %+v", got.Salvage.Content)
			}
			d, c := start(t, data)
			defer stop(t, d, c)
			v := must[*api.Verified](t)(c.As(api.Operator).Verify(t.Context()))
			if v.OK != (len(test.lost) == 0 && test.unread == "") {
				t.Errorf("verify: %+v", v)
			}
			for _, p := range v.Problems {
				for name, id := range l.sessions {
					if _, ok := test.lost[name]; p.Session == id && !ok && name != test.unread {
						t.Errorf("verify names session %s: %+v", name, p)
					}
				}
			}
			for name, id := range l.sessions {
				n, err := 0, error(nil)
				for _, e := range c.Turns(t.Context(), id, api.ListTurns{}) {
					if err = e; err == nil {
						n++
					}
				}
				m := turns.TextMessage(turns.Assistant, "more")
				_, aerr := c.Append(t.Context(), id, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "more")}, Response: &m})
				if test.lost[name] > 0 {
					if err == nil || aerr == nil {
						t.Errorf("session %s has lost an event: read %v, append %v", name, err, aerr)
					}
				} else if name != test.unread && (err != nil || aerr != nil || n != l.turns[name]) {
					t.Errorf("session %s: %d turns, want %d; read %v, append %v", name, n, l.turns[name], err, aerr)
				}
			}
			t.Logf("%s\nverify: %+v", text, v.Problems)
		})
	}
}

// A file of one run that is cut off gives what is there; one of several gives the runs that ended.
func TestACutBackupIsRestoredAsFarAsItGoes(t *testing.T) {
	l := makeDamagedLedger(t)
	for name, test := range map[string]struct {
		end  frameAt
		runs []string
		want []string // sessions that are whole
	}{
		"in the third run":  {l.find(t, 'l', 3, "C", 0), []string{"whole", "whole", "unfinished"}, []string{"B"}},
		"in the second run": {l.find(t, 'c', 2, "", 0), []string{"whole", "unfinished"}, []string{"B"}},
		"in the first run":  {l.find(t, 'e', 1, "", 0), []string{"unfinished"}, []string{"B"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, got := l.restore(t, l.bytes[:test.end.at+9])
			var states []string
			for _, r := range got.Salvage.Runs {
				states = append(states, r.State)
			}
			if !slices.Equal(states, test.runs) || got.Salvage.LostEvents > 0 || !strings.Contains(got.Text(), "unfinished") {
				t.Errorf("%s", got.Text())
			}
			d, c := start(t, data)
			defer stop(t, d, c)
			verified(t, c)
			for _, name := range test.want {
				n := 0
				for _, err := range c.Turns(t.Context(), l.sessions[name], api.ListTurns{}) {
					if err == nil {
						n++
					}
				}
				if n != l.turns[name] {
					t.Errorf("session %s has %d turns, want %d", name, n, l.turns[name])
				}
			}
			extend(t, c, l.sessions["B"], 1)
			verified(t, c)
		})
	}
}

// A ledger that was restored with a loss is backed up and restored as it is.
func TestABackupOfWhatWasRestoredWithALossIsComplete(t *testing.T) {
	l := makeDamagedLedger(t)
	changed := bytes.Clone(l.bytes)
	f := l.find(t, 'l', 2, "A", 0)
	changed[f.at+f.size-20] ^= 1
	c := l.find(t, 'c', 2, "", 0)
	changed[c.at+c.size-20] ^= 1
	data, first := l.restore(t, changed)
	d, rc := start(t, data)
	cfg := backup.Config{File: filepath.Join(t.TempDir(), "b"), Keys: filepath.Join(t.TempDir(), "k"), Now: time.Now}
	must[backup.Result](t)(backup.Run(t.Context(), rc.As(api.Operator), cfg))
	stop(t, d, rc)
	_, again := restoreTo(t, cfg)
	if again.Totals.Lost != first.Totals.Lost || again.Totals.Log != first.Totals.Log || again.Salvage != nil {
		t.Errorf("%+v, want %+v", again.Totals, first.Totals)
	}
}
