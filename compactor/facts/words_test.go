package facts

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"nexus/compactor/summary"
	"nexus/turns"
)

// EachName finds the words that have a kind, though it passes over most without looking for one.
func TestNamesAreTheWordsThatHaveAKind(t *testing.T) {
	pieces := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"→", " ", "\n", "\u00a0", "\xff", ".", ":-", "a.b", "x", "É", "é", "/", "</", "(", "+", "12", "345", "Abc", "aBc", "ABC", "word", "-", "_", "%", "://"}), rapid.String()))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(pieces.Draw(t, "pieces"), "")
		var got, want []Fact
		EachName(s, func(f Fact) { got = append(got, f) })
		for _, w := range Words(strings.ReplaceAll(s, "</", "<")) {
			if kind := kindOf(w); kind != "" && len(w) >= minFactBytes && len(w) <= maxFactBytes {
				want = append(want, Fact{kind, w})
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

// Words splits as strings.FieldsFunc does at what its comment says, in any text, one that is no UTF-8 too. The
// dot of a hidden folder stays.
func TestWordsSplitAsFieldsDo(t *testing.T) {
	pieces := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"→", " ", "\n", "\u00a0", "\u0085", "\xff", "\xe2\x86", ".", ":-", "a.b", "x", "é", "/", "(", "\\", "!", "+1"}), rapid.String()))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(pieces.Draw(t, "pieces"), "")
		want := strings.FieldsFunc(s, func(r rune) bool {
			return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\→", r)
		})
		for i, w := range want {
			for w != "" && strings.Contains(".:-+", w[:1]) && !isHiddenPath(w) {
				w = w[1:]
			}
			want[i] = strings.TrimRight(w, ".:-+")
		}
		if got := Words(s); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}

// The letter of an escape is of no name: in strings of shells and of code, in JSON that a tool prints or is
// passed as a string. A folder of Windows keeps its first letter.
func TestNamesDoNotBeginWithTheLetterOfAnEscape(t *testing.T) {
	for text, want := range map[string]string{
		`gh pr create --body $'## Summary\nThe README\n\nREADME.md'`:     "README.md",
		`printf 'url,title\nhttps://example.org/ok,fine\n'`:              "https://example.org/ok",
		`t.Fatalf("it failed\tTestName: %v\r\nGot_1")`:                   "t.Fatalf TestName Got_1",
		`"\nrun_all" and "a b:\nrun_all"`:                                "run_all run_all",
		`x\\nThe end`:                                                    "",
		`\n12345`:                                                        "12345",
		`{"status":{"completed":"Done.\nrun_all passed\nlib/a.go"}}`:     "run_all lib/a.go",
		"before\n{\"a\":\"x\\nrun_all\"}\n[1,\"y\\nrun_two\"]\nafter_it": "run_all run_two after_it",
		`{"arguments":"{\"cmd\":\"x\\nrun_all\"}"}`:                      "run_all",
		"{\n  \"a\": \"x\\nrun_all\"\n}":                                 "run_all",
		`"x\nrun_all"`:                                                   "run_all",
		`src\node_modules\lib_a C:\next_b`:                               "node_modules lib_a next_b",
		`open C:\new_dir\test_a.py in src\test_b.py, .\new_c`:            "new_dir test_a.py test_b.py new_c",
		`\\nas_1\share_2`:                                                "nas_1 share_2",
		`{"broken":"x\nThe`:                                              "",
		`a\n`:                                                            "",
	} {
		var got []string
		EachName(text, func(f Fact) { got = append(got, f.Text) })
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", text, s, want)
		}
	}
}

// A summary that says a name keeps it, where the turn has it behind an escape; the letter makes no other name.
func TestNameBehindAnEscapeIsNotLost(t *testing.T) {
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "a", Name: "shell", Arguments: turns.Raw(`{"cmd":"gh pr create --body $'Summary\\nThe README\\nparse_rule'"}`)}}}
	replacement := []turns.Message{turns.TextMessage(turns.User, "The README names parse_rule.")}
	got := string(Survival([]summary.HalfTurn{{Messages: []turns.Message{call}}}, nil, replacement))
	if want := `"identifiers":{"total":1,"kept":1}`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
