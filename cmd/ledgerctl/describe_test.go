package main

import (
	"testing"

	"nexus/turns"
)

func TestAMessageIsDescribedByWhatAPersonReads(t *testing.T) {
	call := func(args string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: "c", Name: "Edit", Arguments: turns.Raw(args)}
	}
	result := func(response string) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(response)}
	}
	for _, tc := range []struct {
		parts []turns.Part
		want  string
	}{
		{[]turns.Part{turns.TextPart("a\nb")}, "“a b”"},
		{[]turns.Part{call(`{"replace_all":false,"file_path":"/a.go"}`)}, "Edit(/a.go)"},
		{[]turns.Part{call(`{"n":7}`)}, "Edit(7)"},
		{[]turns.Part{call(`{}`)}, "Edit()"},
		{[]turns.Part{call(`"*** Begin Patch"`)}, "Edit(*** Begin Patch)"},
		{[]turns.Part{result(`"PASS\nok"`)}, "← PASS ok"},
		{[]turns.Part{result(`{"code":0,"output":"Success"}`)}, "← Success"},
		{[]turns.Part{result(`{"code":0}`)}, `← {"code":0}`},
		{[]turns.Part{result(`""`)}, "← (empty)"},
		{[]turns.Part{result(`[{"type":"text","content":"read"}]`), result(`"b"`), result(`"c"`)}, "← 3 results: read"},
		{[]turns.Part{{Type: turns.ToolCallResponse, ID: "c", Ref: &turns.BlobRef{Size: 9, Preview: "the beginning"}}}, "← the beginning"},
		{[]turns.Part{turns.TextPart("x\x1b[31m")}, "“x\ufffd[31m”"},
	} {
		if got := describe([]turns.Message{{Role: turns.User, Parts: tc.parts}}); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.parts, got, tc.want)
		}
	}
}
