package summary

import "testing"

// A tag is one of ours by its whole name, whatever is around it. A name that only
// begins like one stays as it was written.
func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"<SummaryDto> Promise<Summary[]> <summary_of> <pinnedTabs> <memories2>": "<SummaryDto> Promise<Summary[]> <summary_of> <pinnedTabs> <memories2>",
		"<summary> </ Summary\n> <summary x='1'> <summary/>":                    "&lt;summary> &lt;/ Summary\n> &lt;summary x='1'> &lt;summary/>",
		"<\u00a0summary> <\u200bsummary> <\u2028/summary\u200b>":                "&lt;\u00a0summary> &lt;\u200bsummary> &lt;\u2028/summary\u200b>",
		"<summary":                  "&lt;summary",
		"<PINNED></pinned>":         "&lt;PINNED>&lt;/pinned>",
		"<first_request> a < b <b>": "&lt;first_request> a < b <b>",
	} {
		if got := Data(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
