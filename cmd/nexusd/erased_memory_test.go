//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// inMemory returns which words the memory of a process has, as they are: all that it can read and is not a file.
func inMemory(t *testing.T, pid int, words map[string]string) map[string]bool {
	t.Helper()
	areas, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer areas.Close()
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("no permission to read the memory of a process")
	} else if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	found, read := make(map[string]bool), 0
	const step, longest = 1 << 20, 64 // a word may lie across two steps
	b := make([]byte, step+longest)
	for lines := bufio.NewScanner(areas); lines.Scan(); {
		if !strings.Contains(lines.Text(), " rw") {
			continue
		}
		var from, to int64
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		for at := from; at < to; at += step {
			n, _ := memory.ReadAt(b[:min(step+longest, to-at)], at) // an area may have gone
			read += n
			for place, word := range words {
				if !found[place] && bytes.Contains(b[:n], []byte(word)) {
					found[place] = true
				}
			}
		}
	}
	if read < 10<<20 {
		t.Fatalf("only %d bytes were read", read)
	}
	return found
}

// What was erased, and what was redacted, is in the memory of nexusd before, and not after its next start, whatever it is
// then asked. Before that start it may be there: caches and freed memory keep it.
func TestErasedWordsAreNotInTheMemoryOfTheNextProcess(t *testing.T) {
	bin, data := faulttest.Build(t, "."), t.TempDir()
	start := func(env ...string) (*faulttest.Nexusd, *client.Client) {
		cmd := exec.Command(bin, "--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--max-store", "2000000000")
		cmd.Env = append(os.Environ(), env...)
		d, err := faulttest.StartCommand(t.Context(), os.Stderr, cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Kill)
		nc, err := client.Dial(d.URL, d.Operator)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return d, client.New(nc, "default", "main")
	}
	d, c := start("GOGC=off") // what it has freed stays, however long a busy machine takes: the scan has something to find
	ctx := t.Context()
	words := make(map[string]string)
	word := func(place string) string {
		b := make([]byte, 20)
		for i := range b {
			b[i] = 'a' + byte(rand.IntN(26))
		}
		words[place] = string(b)
		return words[place]
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var sessions []turns.ID
	for _, name := range []string{"erased", "redacted"} {
		label, system := word(name+" label"), api.System{{Content: word(name + " system")}}
		s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, System: &system, Limits: &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000}}})
		check(err)
		sessions = append(sessions, s.ID)
		result := fmt.Appendf(nil, "%q", word(name+" result")+strings.Repeat(" and so on", 120_000))
		answer := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "run", Arguments: turns.Raw(fmt.Sprintf(`{"x":%q}`, word(name+" argument")))}}}
		turn, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, word(name+" prompt"))}, Response: &answer})
		check(err)
		_, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: result}}}}})
		check(err)
		for i := range 20 {
			_, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, word(fmt.Sprint(name, " fact ", i))+strings.Repeat(" and so on", 300))}})
			check(err)
		}
		run, err := c.Compact(ctx, s.ID, api.RunCompaction{})
		check(err)
		if run.Compaction == nil {
			t.Fatalf("no compaction: %+v", run)
		}
		_, err = c.Note(ctx, s.ID, api.NoteTurn{Turn: turn.ID, Text: word(name + " note")})
		check(err)
		_, err = c.Search(ctx, api.Search{Text: words[name+" prompt"]})
		check(err)
		_, err = c.Context(ctx, s.ID, api.GetContext{})
		check(err)
	}
	before := inMemory(t, d.Cmd.Process.Pid, words)
	t.Logf("%d of %d words are in memory before", len(before), len(words))
	if len(before) < len(words)*3/4 {
		t.Errorf("the scan sees only %v of %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(words)))
	}

	admin := c.As(api.Operator)
	for place, word := range words {
		if !strings.HasPrefix(place, "redacted ") || strings.HasSuffix(place, " label") {
			continue
		}
		r, err := admin.Redact(ctx, sessions[1], api.RedactTurn{Text: word})
		check(err)
		if len(r.Events) == 0 {
			t.Errorf("%s: nothing is redacted", place)
		}
	}
	delete(words, "redacted label") // what a session is called stays
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		// Until no store has anything of either.
		erased, err := admin.Erase(ctx, sessions[0], api.EraseSession{})
		check(err)
		redacted, err := admin.Redact(ctx, sessions[1], api.RedactTurn{Text: words["redacted prompt"]})
		check(err)
		if erased.Done && redacted.Done {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not done after a minute: %+v, %+v", erased, redacted)
		}
	}
	d.Kill()

	d, c = start()
	if _, err := c.Context(ctx, sessions[0], api.GetContext{}); err == nil {
		t.Error("an erased session has a context")
	}
	_, err := c.Context(ctx, sessions[1], api.GetContext{})
	check(err)
	for x, err := range c.Turns(ctx, sessions[1], api.ListTurns{}) {
		check(err)
		_, err = c.Turn(ctx, sessions[1], x.ID)
		check(err)
	}
	_, err = c.Search(ctx, api.Search{Text: "and so on"})
	check(err)
	v, err := c.As(api.Operator).Verify(ctx)
	check(err)
	if !v.OK {
		t.Errorf("%+v", v.Problems)
	}
	if after := inMemory(t, d.Cmd.Process.Pid, words); len(after) > 0 {
		t.Errorf("in memory after the next start: %v", slices.Sorted(maps.Keys(after)))
	}
}
