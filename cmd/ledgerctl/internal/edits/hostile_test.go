package edits

import (
	"errors"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"nexus/turns"
)

// Whatever a transcript holds, files stay below the folder, outside .git and within the
// limits.
func FuzzCalls(f *testing.F) {
	f.Add("Write", `{"file_path":"/p/a","content":"x"}`, "File created successfully at: /p/a", false)
	f.Add("Edit", `{"file_path":"../x","old_string":"","new_string":"x"}`, "The file x", false)
	f.Add("Read", `{"file_path":"/p/.git/config"}`, "     1→x\n     2→", false)
	f.Add("apply_patch", `"*** Begin Patch\n*** Add File: a/../../b\n+x\n*** Update File: c\n*** Move to: .git/x\n@@ d\n-x\n+y\n*** End Patch"`, "Success. Updated the following files:\n", false)
	f.Add("exec_command", `{"cmd":"sed -n '1,9p' a","workdir":"/"}`, "Process exited with code 0\nOutput:\nx\n", false)
	f.Add("edit", `{"path":"a\u0000b","edits":[{"oldText":"x","newText":"y"}]}`, "Successfully replaced 1 block", true)
	f.Add("replace", `{"file_path":"/p/a","old_string":"\\n","new_string":"$&"}`, "Successfully modified file", false)
	f.Fuzz(func(t *testing.T, name, arguments, result string, failed bool) {
		result = strings.ToValidUTF8(result, "?")
		for _, agent := range []string{"claude-code", "codex", "pi", "gemini-cli"} {
			s := newStory().call("Write", wroteA, "File created successfully at: /p/a", false).call(name, arguments, result, failed).call(name, arguments, result, !failed)
			files, st := s.end(Options{Agent: agent, Folder: "/p", Limits: Limits{FileSize: 100}})
			for _, x := range files {
				if rel, why := inside("/p", "/p", x.Path); rel != x.Path || why != "" || len(x.Content) > 100 {
					t.Errorf("%s: %+v", agent, x)
				}
				if x.Status == Unknown && x.Content != "" || x.Deleted && x.Content != "" || x.Status == Exact != (x.Why == "") {
					t.Errorf("%s: %+v", agent, x)
				}
			}
			if len(st.Refused) > maxRefused {
				t.Errorf("%d refused", len(st.Refused))
			}
		}
	})
}

var quoted = regexp.MustCompile(`'[^']*'|"[^"$\x60\\!]*"`)

func FuzzOnlyReads(f *testing.F) {
	f.Add("cat a | head -3 && git status")
	f.Add("sed -n '1,20p' \"a b\" 2>/dev/null")
	f.Fuzz(func(t *testing.T, line string) {
		if onlyReads(line) && strings.ContainsAny(strings.NewReplacer("2>&1", "", "2>/dev/null", "", "2> /dev/null", "", "&&", "").Replace(quoted.ReplaceAllString(line, "q")), "$`<>&(){}\\") {
			t.Errorf("%q is said to only read", line)
		}
	})
}

func TestManyLargeEditsEndInAType(t *testing.T) {
	big := strings.Repeat("x", 10<<20)
	b, _ := turns.EncodeJSON(map[string]string{"file_path": "/p/a", "content": big + "y"})
	s := newStory().call("Write", string(b), "File created successfully at: /p/a", false)
	for range 30 {
		s.call("Edit", `{"file_path":"/p/a","old_string":"y","new_string":"z"}`, "The file /p/a has been updated.", false)
		s.call("Edit", `{"file_path":"/p/a","old_string":"z","new_string":"y"}`, "The file /p/a has been updated.", false)
	}
	o := claudeOptions
	o.Limits.Work = 256 << 20
	if got, _ := s.end(o); len(got) != 1 || got[0].Status != Unknown || got[0].Why != ReasonTooLarge || got[0].Content != "" {
		t.Errorf("%s %s", got[0].Status, got[0].Why)
	}
}

func TestOriginalsAreReadFromResultsOnly(t *testing.T) {
	got, err := ReadOriginals(strings.NewReader(`{"message":{"content":[{"type":"tool_result","tool_use_id":"a"}]},"toolUseResult":{"originalFile":"one"}}
broken "originalFile"
{"message":{"content":[{"type":"tool_result","tool_use_id":"b"}]},"toolUseResult":{"originalFile":null}}
{"message":{"content":[{"type":"tool_result","tool_use_id":"c"}]},"toolUseResult":{"originalFile":"x","userModified":true}}
{"message":{"content":[{"type":"tool_result","tool_use_id":"d"},{"type":"tool_result","tool_use_id":"e"}]},"toolUseResult":{"originalFile":"x"}}
{"message":{"content":"originalFile"},"toolUseResult":"\"originalFile\""}`))
	if want := map[string]string{"a": "one"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ReadOriginals(io.LimitReader(endless{}, maxTranscriptLine+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
