package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"nexus/cmd/internal/transcripts/tally"
	"nexus/ledger/api"
	"nexus/turns"
)

// rollout writes a rollout of Codex, a minute a step.
type rollout struct {
	strings.Builder
	copied bool // write with the times of a copy
	at     int
}

const (
	rolloutID = "01a2b4f0-1c00-7aa1-8000-00000000a001"
	forkID    = "01a2b53e-fc00-7aa1-8000-00000000a002" // 86 minutes later
)

func rolloutTime() time.Time { return timeInUUID(rolloutID) }

func timeInUUID(s string) time.Time { return turns.ID(uuid.MustParse(s)).Time().UTC() }

func (r *rollout) line(kind, payload string) *rollout {
	at := rolloutTime().Add(time.Duration(r.at) * time.Minute)
	if r.copied {
		at = timeInUUID(forkID)
	}
	fmt.Fprintf(r, `{"timestamp":%q,"type":%q,"payload":{%s}}`+"\n", at.Format("2006-01-02T15:04:05.000Z"), kind, payload)
	return r
}

func (r *rollout) header(id, more string) *rollout {
	return r.line("session_meta", fmt.Sprintf(`"id":%q,"cwd":"/w","source":"cli"%s`, id, more))
}

// ask adds a task with one call, n minutes after the beginning.
func (r *rollout) ask(n int) *rollout {
	r.at = n
	task := taskID(rolloutTime().Add(time.Duration(n)*time.Minute), n)
	r.line("event_msg", fmt.Sprintf(`"type":"task_started","turn_id":%q`, task))
	r.line("turn_context", fmt.Sprintf(`"turn_id":%q,"model":"m"`, task))
	r.line("response_item", fmt.Sprintf(`"type":"message","role":"user","content":"ask %d"`, n))
	r.line("response_item", fmt.Sprintf(`"type":"message","role":"assistant","content":[{"type":"output_text","text":"told %d"}]`, n))
	return r.line("event_msg", fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"total_tokens":%d},"last_token_usage":{"input_tokens":%d,"output_tokens":1}}`, n*1000, n))
}

func (r *rollout) compact(n int) *rollout {
	r.at = n
	return r.line("compacted", fmt.Sprintf(`"message":"","replacement_history":[{"type":"message","role":"user","content":"summary %d"}]`, n))
}

func taskID(at time.Time, n int) string {
	ms := at.UnixMilli()
	return fmt.Sprintf("%08x-%04x-7aa1-8000-%012x", ms>>16, ms&0xffff, n)
}

func newRollout() *rollout {
	var r rollout
	return r.header(rolloutID, "")
}

// told is what the sessions of a ledger say, each turn once, and the sum of their input.
type told struct {
	calls    int
	sessions int
	input    uint64
	head     string                     // the last answer of the session of the file itself
	bound    map[string]turns.TimeBound // by answer
}

func (r *refresher) told(session turns.ID) (out told) {
	r.Helper()
	out.bound = make(map[string]turns.TimeBound)
	seen := make(map[turns.ID]bool)
	for s, err := range r.c.ListSessions(r.Context(), api.ListSessions{}) {
		if err != nil {
			r.Fatal(err)
		}
		out.sessions++
		for t, err := range r.c.Turns(r.Context(), s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				r.Fatal(err)
			}
			if t.Response == nil {
				continue
			}
			answer := t.Response.Parts[0].Content
			if s.ID == session {
				out.head = answer
			}
			if out.bound[answer] = turns.TimeBoundOf(t.Meta); seen[t.ID] {
				continue
			}
			seen[t.ID] = true
			if out.calls++; t.Usage != nil {
				out.input += t.Usage.InputTokens
			}
		}
	}
	return out
}

// Older copies of a file that was written anew, imported after the newer one, are stored
// beside, whatever the order: each call once, and the session keeps its head. Again they
// store nothing.
func TestOlderCopiesOfARewrittenFile(t *testing.T) {
	copies := []string{
		newRollout().ask(1).ask(2).String(),
		newRollout().compact(10).ask(11).ask(12).String(),
		newRollout().compact(20).ask(21).String(),
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		r := newRefresher(t)
		var session turns.ID
		newest := 0
		for again := range 2 {
			for _, i := range order {
				r.write(copies[i])
				rep := r.read(false)
				session = rep.Sessions[0]
				if again == 1 && rep.Stored > 0 || rep.KeptFirst > 0 {
					t.Errorf("%v: copy %d again: %+v", order, i, rep)
				}
				newest = max(newest, i)
				if want := []string{"told 2", "told 12", "told 21"}[newest]; r.told(session).head != want {
					t.Errorf("%v: after copy %d the head is %q, want %q", order, i, r.told(session).head, want)
				}
			}
		}
		if got := r.told(session); got.calls != 5 || got.input != 1+2+11+12+21 {
			t.Errorf("%v: %+v", order, got)
		}
		if sessions := r.told(session).sessions; slices.IsSorted(order) != (sessions == 1) {
			t.Errorf("%v: %d sessions", order, sessions)
		}
	}
}

// An older copy that went on to what a newer one begins with brings nothing twice.
func TestOlderCopyThatHoldsTheNewer(t *testing.T) {
	r := newRefresher(t)
	r.write(newRollout().compact(20).ask(21).String())
	session := r.read(false).Sessions[0]
	r.write(newRollout().compact(10).ask(11).compact(20).ask(21).String())
	for range 2 {
		r.read(false)
		if got := r.told(session); got.calls != 2 || got.input != 11+21 || got.head != "told 21" {
			t.Errorf("%+v", got)
		}
	}
}

// A fork that is imported first brings what it copied, with bounds for times. The file of
// what it was forked from contradicts nothing then.
func TestTheFileOfWhatAForkCopied(t *testing.T) {
	for _, begin := range []func(*rollout) *rollout{
		func(r *rollout) *rollout { return r.ask(1).ask(2) },
		func(r *rollout) *rollout { return r.compact(1).ask(2) },
		func(r *rollout) *rollout { return r.ask(1).compact(2).ask(3) },
	} {
		r := newRefresher(t)
		fork := &rollout{copied: true}
		fork.header(forkID, fmt.Sprintf(`,"forked_from_id":%q`, rolloutID))
		begin(fork.header(rolloutID, ""))
		fork.copied = false
		fork.ask(90)
		r.write(fork.String())
		r.read(false)
		r.write(begin(newRollout()).ask(4).String())
		rep := r.read(false)
		said := func(l tally.Report) (out []string) {
			for _, x := range l.Losses {
				out = append(out, x.Kind+" "+x.Reason)
			}
			return out
		}(*rep)
		if rep.KeptFirst > 0 || slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "kept_first") || strings.Contains(s, "other content") }) {
			t.Errorf("%d kept: %q", rep.KeptFirst, said)
		}
		got := r.told(rep.Sessions[0])
		if got.head != "told 4" || got.bound["told 4"] != "" || got.bound["told 90"] != "" {
			t.Errorf("%+v", got)
		}
		if again := r.read(false); again.Stored > 0 || again.KeptFirst > 0 {
			t.Errorf("again: %+v", again)
		}
		r.write(fork.String())
		if again := r.read(false); again.Stored > 0 || again.KeptFirst > 0 {
			t.Errorf("the fork again: %+v", again)
		}
	}
}
