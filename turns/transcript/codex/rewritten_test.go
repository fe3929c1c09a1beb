package codex

import (
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
)

const rewrittenThread = "019ff00c-d280-7e21-8000-0000000000aa"

// sameWords is an exchange of one task whose words are those of each other one.
func sameWords(clock string) string {
	return `{"timestamp":"2026-08-11T` + clock + `Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}}
{"timestamp":"2026-08-11T` + clock + `Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}
{"timestamp":"2026-08-11T` + clock + `Z","type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":` + strings.ReplaceAll(clock[6:], "0", "1") + `,"output_tokens":1}}}}
`
}

// Prompts of the same words in one task are turns of their own, also where Codex wrote the file
// anew between them and so their number in the file begins again.
func TestCodexEqualPromptsOfARewrittenTask(t *testing.T) {
	header := `{"timestamp":"2026-08-11T09:00:00Z","type":"session_meta","payload":{"id":"` + rewrittenThread + `","cwd":"/w"}}` + "\n"
	task := `{"timestamp":"2026-08-11T09:00:01Z","type":"turn_context","payload":{"turn_id":"019ff00c-d668-7081-8000-0000000000ab","model":"m"}}` + "\n"
	for name, replaced := range map[string]int{"all prompts are in the compaction": 3, "one of them is": 1} {
		prompts := strings.Repeat(`,{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}`, replaced)
		compacted := `{"timestamp":"2026-08-11T09:00:30Z","type":"compacted","payload":{"message":"sum","replacement_history":[` + prompts[1:] + `]}}` + "\n"
		before, _ := readCodex(t, header+task+sameWords("09:00:11")+sameWords("09:00:12")+sameWords("09:00:13"), transcript.Options{Final: true})
		after, _ := readCodex(t, header+compacted+task+sameWords("09:00:31")+sameWords("09:00:32"), transcript.Options{Final: true})
		ids := make(map[turns.ID]bool)
		for _, st := range append(before, after...) {
			if st.Append != nil {
				ids[st.Append.ID] = true
			}
		}
		if len(ids) != 5 {
			t.Errorf("%s: %d ids of 5 turns", name, len(ids))
		}
		again, _ := readCodex(t, header+compacted+task+sameWords("09:00:31")+sameWords("09:00:32")+sameWords("09:00:33"), transcript.Options{Final: true})
		for i, st := range after {
			if st.ID() != again[i].ID() {
				t.Errorf("%s: step %d has another id when the file has grown", name, i)
			}
		}
	}
}

// A rollout whose header is torn is the session that its file is named after.
func TestCodexTornHeaderIsNamedByItsFile(t *testing.T) {
	body := `{"timestamp":"2026-08-11T09:00:01Z","type":"turn_context","payload":{"turn_id":"019ff00c-d668-7081-8000-0000000000ab","model":"m"}}` + "\n" + sameWords("09:00:11") + sameWords("09:00:12")
	header := `{"timestamp":"2026-08-11T09:00:00Z","type":"session_meta","payload":{"id":"` + rewrittenThread + `","cwd":"/w"}}` + "\n"
	torn := header[:60] + "\n" + body
	if !Sniff([]byte(torn)) || Sniff([]byte(body)) || Sniff([]byte(header[:60]+"\n"+`{"a":1}`+"\n")) {
		t.Error("not recognized by its beginning")
	}
	whole, _ := readCodex(t, header+body, transcript.Options{Final: true})
	got, losses := readCodex(t, torn, transcript.Options{Final: true, Name: "rollout-2026-08-11T09-00-00-" + rewrittenThread + ".jsonl"})
	if len(got) != len(whole) || len(losses) < 2 {
		t.Fatalf("%d steps, want %d; losses %+v", len(got), len(whole), losses)
	}
	for i := range got {
		if got[i].ID() != whole[i].ID() {
			t.Errorf("step %d has another id than with its header", i)
		}
	}
}
