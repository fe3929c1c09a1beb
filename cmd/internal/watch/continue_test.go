package watch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/internal/transcripts/written"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// What an agent adds to a transcript that continue wrote goes onto the fork, while the
// watch runs and after a restart. No session is made of it.
func TestContinuedTranscriptComesBackOntoTheFork(t *testing.T) {
	for i, agent := range agents.Resuming() {
		t.Run(agent, func(t *testing.T) {
			l, home := openLedger(t), t.TempDir()
			rel, lines := transcriptFile(t, agent, 900+i, 2)
			write(t, filepath.Join(home, rel), strings.Join(lines, ""))
			once(t, l, home)
			fork := forkOfAll(t, l.client, formatOf(t, lines[0]))
			before := sessionsAndTurns(t, l.client, fork.ID)

			home = t.TempDir()
			path := filepath.Join(home, filepath.Dir(rel), "rollout-continued.jsonl")
			var texts []string
			for n := range 3 {
				texts = append(texts, continued(t, l.client, fork, formatOf(t, lines[0]), n))
				if !strings.HasPrefix(texts[n], texts[max(n-1, 0)]) {
					t.Fatalf("the transcript does not grow:\n%s\n%s", texts[n-1], texts[n])
				}
			}
			write(t, path, texts[0])
			r := watchHome(t, l, home, nil)
			r.untilRead(path)
			appendTo(t, path, texts[1][len(texts[0]):])
			r.untilRead(path)
			r.stop()
			appendTo(t, path, texts[2][len(texts[1]):])
			r = watchHome(t, l, home, nil)
			r.untilRead(path)
			r.stop()
			old := time.Now().Add(-2 * transcripts.SettleTime) // the last turn of some has no end
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
			once(t, l, home)
			want := before
			want.turns += 2
			if got := sessionsAndTurns(t, l.client, fork.ID); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func formatOf(t *testing.T, head string) string {
	t.Helper()
	f, err := transcriptfile.Detect([]byte(head))
	if err != nil {
		t.Fatal(err)
	}
	return f.Name
}

// forkOfAll forks the only session of a ledger at its end, as continue does.
func forkOfAll(t *testing.T, c *client.Client, format string) *api.Session {
	t.Helper()
	for s, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Fork(t.Context(), s.ID, api.CreateFork{Turn: *s.Head, Meta: turns.Raw(`{"source":"nexus","cwd":"/w","continued":{"format":"` + format + `"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Fatal("no session")
	return nil
}

// continued returns the transcript of a fork as its agent has it after n more exchanges.
// Gemini CLI makes a log of the chat that continue wrote.
func continued(t *testing.T, c *client.Client, fork *api.Session, format string, n int) string {
	t.Helper()
	x, err := written.HandedOver(t.Context(), c, fork.ID, written.Session(fork), fork.ForkedFrom.Turn, &written.Continued{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	x.Path = x.Path[:fork.Depth]
	for i := range n {
		at := time.Date(2027, 1, 1, 0, 0, i, 0, time.UTC)
		x.Path = append(x.Path, transcript.WrittenTurn{ID: turns.DeriveID(at, "more"), Time: at, Model: "m",
			Messages: []turns.Message{turns.TextMessage(turns.User, "go on")}, Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("more")}}})
	}
	var text bytes.Buffer
	if err := x.Write(&text); err != nil {
		t.Fatal(err)
	}
	if format != "gemini-cli" {
		return text.String()
	}
	var log strings.Builder
	for line := range strings.Lines(text.String()) {
		line = strings.TrimPrefix(strings.TrimSpace(line), ",")
		switch head, isHead := strings.CutSuffix(line, `,"messages":[`); {
		case isHead:
			log.WriteString(head + "}\n" + `{"$set":{"sessionId":"` + x.Session.TranscriptID() + `"}}` + "\n")
		case !strings.HasPrefix(line, "]"):
			log.WriteString(line + "\n")
		}
	}
	return log.String()
}

type counts struct{ sessions, turns int }

// sessionsAndTurns returns how many sessions a ledger has, and turns a fork.
func sessionsAndTurns(t *testing.T, c *client.Client, fork turns.ID) (n counts) {
	t.Helper()
	for _, err := range c.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n.sessions++
	}
	for _, err := range c.Turns(t.Context(), fork, api.ListTurns{}) {
		if err != nil {
			t.Fatal(err)
		}
		n.turns++
	}
	return n
}
