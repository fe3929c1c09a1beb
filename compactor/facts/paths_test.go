package facts

import (
	"slices"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
)

// A slash makes no path: its shape does, or a call that names it. Words of prose are no facts;
// names of branches and models are identifiers.
func TestPathsAreFilesAndNoWordsOfProse(t *testing.T) {
	call := func(name, arguments string) summary.HalfTurn {
		return summary.HalfTurn{Half: turns.ResponseHalf, Messages: []turns.Message{{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c" + name, Name: name, Arguments: turns.Raw(arguments)}}}}}
	}
	const said = `lint/CI and/or HTML/CSS/canvas stdin/stdout batch-failure/cutover Missing/blocked scripts/ MB/s image/png os/exec Europe/Berlin owner/repo "read/write"
src/a.go src/a.go:12 docs/LICENSE cmd/Makefile v1/notes.md ./run.sh ../up/x ~/xy /etc/hosts github.com/acme/shelf https://example.org/a .github/workflows a/.env www/x.min.js cmd/sub/
refs/heads/main origin/main dev1/rewrite vendor/model_2 moonshot/kimi-k2 @acme/shelf
internal/plan internal/plan/sub plan/other srv/deploy fix/no-lock srv/other quoted/words src/gen`
	shaped := []string{"src/a.go", "src/a.go:12", "docs/LICENSE", "cmd/Makefile", "v1/notes.md", "/run.sh", "/up/x", "~/xy", "/etc/hosts", "github.com/acme/shelf", "https://example.org/a", ".github/workflows", "a/.env", "www/x.min.js", "cmd/sub/"}
	names := []string{"refs/heads/main", "origin/main", "dev1/rewrite", "vendor/model_2", "moonshot/kimi-k2", "@acme/shelf"}
	for name, x := range map[string]struct {
		calls []summary.HalfTurn
		paths []string // beside those of the shape
	}{
		"without calls": {nil, nil},
		"with calls": {[]summary.HalfTurn{
			call("Read", `{"file_path":"/w/internal/plan/plan.go"}`),
			call("List", `{"path":"srv/deploy"}`),
			call("Bash", `{"command":"git checkout -b fix/no-lock && git commit -m 'no lint/CI, and quoted/words' && ls src/gen/*.go"}`),
			call("Write", `{"file_path":"x.md","content":"HTML/CSS/canvas and stdin/stdout are words"}`),
		}, []string{"internal/plan", "srv/deploy", "fix/no-lock", "src/gen"}},
	} {
		t.Run(name, func(t *testing.T) {
			halves := append(x.calls, summary.HalfTurn{Messages: []turns.Message{turns.TextMessage(turns.Assistant, said)}})
			finder := NewFinder(halves)
			got := make(map[string][]string)
			finder.Each(&halves[len(halves)-1], func(f Fact) { got[f.Kind] = append(got[f.Kind], f.Text) })
			if want := append(slices.Clone(shaped), x.paths...); !slices.Equal(got[pathKind], want) {
				t.Errorf("paths %q, want %q", got[pathKind], want)
			}
			if !slices.Equal(got[identifierKind], names) {
				t.Errorf("identifiers %q, want %q", got[identifierKind], names)
			}
		})
	}
}

// What a survey calls a path it finds where the context shows it, known by a call or not.
func TestKnownPathSurvivesWhereItIsShown(t *testing.T) {
	covered := exchange("Read", `{"file_path":"/w/internal/plan/plan.go"}`, text("see internal/plan and origin/main"))
	for shown, want := range map[string]string{
		"internal/plan and origin/main": `"paths":{"total":2,"kept":1},"identifiers":{"total":1,"kept":1}`,
		"nothing":                       `"paths":{"total":2,"kept":0},"identifiers":{"total":1,"kept":0}`,
	} {
		if got := string(Survival(covered, nil, []turns.Message{turns.TextMessage(turns.User, shown)})); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", shown, got, want)
		}
	}
}

func TestQuotedWordsOfACommandAreNoFiles(t *testing.T) {
	for command, want := range map[string]string{
		`ls a/b 'c/d' "e/f" g\ h`:         "ls a/b     gh",
		`git commit -m "it's a/b" && x/y`: "git commit -m   && x/y",
		`echo 'open`:                      "echo  ",
	} {
		if got := unquoted(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
