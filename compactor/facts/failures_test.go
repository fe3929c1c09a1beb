package facts

import (
	"slices"
	"strings"
	"testing"

	"nexus/compactor/summary"
	"nexus/turns"
)

// exchange returns the halves of a call and its result.
func exchange(tool, arguments string, result turns.Part) []summary.HalfTurn {
	result.Type, result.ID = turns.ToolCallResponse, "c"
	return []summary.HalfTurn{
		{Half: turns.ResponseHalf, Messages: []turns.Message{{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: tool, Arguments: turns.Raw(arguments)}}}}},
		{Half: turns.MessagesHalf, Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{result}}}},
	}
}

func factsOf(halves []summary.HalfTurn, kind string) (out []string) {
	f := NewFinder(halves)
	for i := range halves {
		f.Each(&halves[i], func(x Fact) {
			if x.Kind == kind {
				out = append(out, x.Text)
			}
		})
	}
	return out
}

func text(s string) turns.Part   { return turns.Part{Response: turns.RawText(s)} }
func failed(s string) turns.Part { return turns.Part{Response: turns.RawText(s), IsError: true} }

// An error is what a tool returned as a failure: not what it read, wrote or listed, though
// that speaks of errors.
func TestErrorsAreWhatToolsReturnAsFailures(t *testing.T) {
	const source = "func load(name string) error {\n\treturn fmt.Errorf(\"load %s: %w\", name, err)\n}\n// Build to check for compile errors\nlog.Fatal(\"failed\")\nError: a line of a document\n"
	const codex = "Command: /bin/zsh -lc 'x'\nChunk ID: 7f7974\nWall time: 0.2 seconds\nProcess exited with code "
	for _, c := range []struct {
		name, tool, arguments string
		result                turns.Part
		want                  []string
	}{
		{"a file that was read", "Read", `{"file_path":"a.go"}`, text(source), nil},
		{"a file that a shell printed", "exec_command", `{"cmd":"sed -n '1,9p' a.go"}`, text(codex + "0\nOutput:\n" + source), nil},
		{"a listing with numbers", "bash", `{"command":"grep -n error *.go | head -5"}`, text("a.go:3: return errors.New(\"x\")\n12:Error: y"), nil},
		{"a patch that was shown", "shell", `{"command":["bash","-lc","git diff --cached"]}`, text("--- a/x.go\n+++ b/x.go\n+\treturn fmt.Errorf(\"bad\")\n-panic: x"), nil},
		{"a file that was written", "Edit", `{"file_path":"a.go"}`, text("The file a.go has been updated.\n     3→\terr := errors.New(\"x\")\n"), nil},
		{"a test that runs and passes", "Bash", `{"command":"go test ./..."}`, text("ok  \tnexus/a\t0.1s\n=== RUN TestErrors\n--- PASS: TestErrors (0.00s)"), nil},
		{"what an agent reported", "Task", `{"prompt":"look"}`, text("The build failed: error: see above"), nil},
		{"a compiler", "Bash", `{"command":"cd srv && go build ./..."}`, failed("Exit code 1\n# nexus/srv\nsrv/a.go:12:5: undefined: parseRule\n\treturn parseRule(x), nil"), []string{"srv/a.go:12:5: undefined: parseRule"}},
		{"a test runner of Go", "exec_command", `{"cmd":"go test ./srv"}`, text(codex + "1\nOutput:\n--- FAIL: TestRule (0.01s)\n    rule_test.go:31: got 4, want 5\nFAIL\nFAIL\tnexus/srv\t0.2s\n"),
			[]string{"FAIL: TestRule (0.01s)", "rule_test.go:31: got 4, want 5", "FAIL", "FAIL\tnexus/srv\t0.2s"}},
		{"a stack of Python", "bash", `{"command":"python3 run.py"}`, text("Traceback (most recent call last):\n  File \"run.py\", line 3, in <module>\n    raise ValueError(x)\nValueError: no rule 7\n\nCommand exited with code 1"), []string{"ValueError: no rule 7"}},
		{"Rust", "Bash", `{"command":"cargo build"}`, failed("Exit code 101\nerror[E0308]: mismatched types\n --> src/a.rs:3:5\n  |\n3 |     return x;\n"), []string{"error[E0308]: mismatched types"}},
		{"TypeScript, exit code 0", "Bash", `{"command":"npx tsc || true"}`, text("src/a.ts(3,7): error TS2304: Cannot find name 'x'."), []string{"src/a.ts(3,7): error TS2304: Cannot find name 'x'."}},
		{"Node", "run_shell_command", `{"command":"node a.js"}`, text("Uncaught TypeError: x is not a function\n    at run (a.js:3:1)"), []string{"Uncaught TypeError: x is not a function"}},
		{"a shell, with colors", "Bash", `{"command":"mk x"}`, failed("Exit code 127\n\x1b[31mbash: line 1: mk: command not found\x1b[0m"), []string{"bash: line 1: mk: command not found"}},
		{"a reader that failed", "Bash", `{"command":"cat nope.txt"}`, failed("Exit code 1\ncat: nope.txt: No such file or directory"), []string{"cat: nope.txt: No such file or directory"}},
		{"a search without a match", "Bash", `{"command":"rg nothing"}`, failed("Exit code 1\n"), nil},
		{"a tool that refused", "Edit", `{"file_path":"a.go"}`, failed("<tool_use_error>String to replace not found in file.</tool_use_error>\nString: return err"), []string{"String to replace not found in file."}},
		{"a tool of Codex that refused", "apply_patch", `"*** Begin Patch\n*** Update File: a.go\n"`, turns.Part{Response: turns.RawText(`{"output":"Failed to find expected lines in a.go","metadata":{"exit_code":1}}`)}, []string{"Failed to find expected lines in a.go"}},
		{"stderr apart", "run", `{"cmd":"deploy"}`, turns.Part{Response: turns.Raw(`{"stdout":"step 1\nstep 2","stderr":"the certificate has expired","exit_code":3}`)}, []string{"the certificate has expired"}},
		{"a program that says it last", "Bash", `{"command":"./deploy"}`, failed("Exit code 3\nstep 1\nstep 2\nnothing was deployed"), []string{"nothing was deployed"}},
		{"a divider", "Bash", `{"command":"for c in 1 2; do echo \"=== COMMIT $c ===\"; git show $c:x > /dev/null; done"}`, failed("Exit code 128\n=== COMMIT 1: d01a (more) ==="), nil},
		{"a program that says it before a divider", "Bash", `{"command":"./deploy"}`, failed("Exit code 3\nstep 1\nnothing was deployed\n-----------"), []string{"nothing was deployed"}},
		{"a report of no error", "Bash", `{"command":"./status"}`, text("Error: (none)\nlast error: null\nERROR: 0\nerror: 0 of 3 files"), []string{"error: 0 of 3 files"}},
		{"a test of Go behind dividers", "Bash", `{"command":"go test"}`, failed("Exit code 1\n=== RUN   TestX\n--- FAIL: TestX (0.00s)"), []string{"FAIL: TestX (0.00s)"}},
		{"a call that a person refused", "Bash", `{"command":"rm -rf x"}`, failed("The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nkeep x"), nil},
	} {
		got := factsOf(exchange(c.tool, c.arguments, c.result), errorKind)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Each agent passes commands to its shell in a way of its own.
func TestCommandsOfEveryAgent(t *testing.T) {
	for arguments, want := range map[string][]string{
		`{"command":"go test ./...\nls"}`:                                     {"go test ./..."},
		`{"cmd":"make x","workdir":"/w","yield_time_ms":1000}`:                {"make x"},
		`{"command":["bash","-lc","go vet ./..."],"timeout_ms":9}`:            {"go vet ./..."},
		`{"command":["ls","-l"]}`:                                             {"ls -l"},
		`{"type":"exec","action":{"type":"exec","command":["npm","test"]}}`:   {"npm test"},
		`"*** Begin Patch\n*** Update File: a/b.go\n+x\n*** Add File: c.md"`:  {"apply_patch a/b.go", "apply_patch c.md"},
		`{"input":"*** Begin Patch\n*** Delete File: d.go\n"}`:                {"apply_patch d.go"},
		`{"command":["apply_patch","*** Begin Patch\n*** Add File: e.go\n"]}`: {"apply_patch e.go"},
		`{"file_path":"x","content":"command: nothing"}`:                      nil,
		`{"chars":"y\n","session_id":4}`:                                      nil,
	} {
		if got := factsOf(exchange("t", arguments, text(""))[:1], commandKind); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}

func TestNamesAreNoParametersAndNoProse(t *testing.T) {
	halves := exchange("exec_command", `{"cmd":"cat src/one.go","yield_time_ms":1000,"max_output_tokens":200}`,
		text("Command: /bin/zsh -lc 'cat src/one.go'\nChunk ID: 7f7974\nWall time: 0.0 seconds\nProcess exited with code 0\nOutput:\nN/A, TCP/IP and/or read/write %d/%d //nolint </div> </span> internal/plan ~/x/y.go origin/main_2 +Status_1\n"))
	var got []string
	for _, kind := range []string{pathKind, identifierKind} {
		got = append(got, factsOf(halves, kind)...)
	}
	want := []string{"src/one.go", "~/x/y.go", "origin/main_2", "Status_1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a person wrote is a fact sentence by sentence; what a program wrote in the person's
// name, and code that was pasted, is none.
func TestWhatThePersonSaidIsAFact(t *testing.T) {
	message := func(s string) turns.Message { return turns.TextMessage(turns.User, s) }
	h := []summary.HalfTurn{{Half: turns.MessagesHalf, Program: []int{1}, Messages: []turns.Message{
		message("Use a lock file instead. Don't touch srv/a.go!\n```\nreturn err\n```\n<system-reminder>be brief</system-reminder>"),
		message("Base directory for this skill: /x"),
	}}, {Half: turns.ResponseHalf, Messages: []turns.Message{turns.TextMessage(turns.Assistant, "I will use a lock file.")}}}
	h = append(h, exchange("Bash", `{"command":"rm x"}`, failed("The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nkeep x"))...)
	want := []string{"Use a lock file instead.", "Don't touch srv/a.go!", "keep x"}
	if got := factsOf(h, userKind); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s := NewSurvey(h, nil, []turns.Message{message("TASK\n- Use a lock file instead. [t1]\n- rm x")})
	for f, lost := range map[Fact]bool{{userKind, "Use a lock file instead."}: false, {userKind, "Don't touch srv/a.go!"}: true, {commandKind, "rm x"}: false} {
		if s.IsLost(f) != lost {
			t.Errorf("%v: lost is %v", f, !lost)
		}
	}
}

func FuzzFacts(f *testing.F) {
	f.Add("Bash", `{"command":"go test"}`, "Exit code 1\nx.go:1:2: undefined: y")
	f.Add("t", `"*** Begin Patch\n*** Add File: "`, `{"output":"\nOutput:\n","metadata":{"exit_code":1}}`)
	f.Fuzz(func(t *testing.T, tool, arguments, output string) {
		halves := exchange(tool, arguments, failed(output))
		finder := NewFinder(halves)
		for i := range halves {
			finder.Each(&halves[i], func(x Fact) {
				if len(x.Text) < minFactBytes || len(x.Text) > maxFactBytes || !slices.Contains(Kinds(), x.Kind) {
					t.Errorf("%+v", x)
				}
			})
		}
		survey := NewSurvey(halves, halves, nil)
		for x, kept := range survey.facts {
			if !kept && (x.Kind != errorKind || !strings.Contains(output, "\x1b")) {
				t.Errorf("%+v is lost by what shows it whole", x)
			}
		}
	})
}
