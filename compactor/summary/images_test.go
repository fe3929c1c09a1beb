package summary

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"nexus/turns"
)

// Images are counted and named; their bytes are in no transcript, wherever they
// stood.
func TestImages(t *testing.T) {
	data := []byte(strings.Repeat("picture!", 60))
	b64 := base64.StdEncoding.EncodeToString(data)
	result := func(json string) turns.Part {
		return turns.Part{Type: turns.ToolCallResponse, ID: "a", Response: turns.Raw(json)}
	}
	for _, tc := range []struct {
		name   string
		part   turns.Part
		images int
		want   string
	}{
		{"blob", turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: data}, 1, "[blob image/png]"},
		{"pdf", turns.Part{Type: turns.Blob, MimeType: "application/pdf", Data: data}, 0, "[blob application/pdf]"},
		{"uri", turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/" + b64}, 1, "[uri ]"},
		{"result of parts", result(`[{"type":"text","content":"see"},{"type":"blob","content":"` + b64 + `","modality":"image","mime_type":"image/png"}]`), 1, "[result] see\n[blob image/png]"},
		{"result of a provider's blocks", result(`[{"type":"image","source":{"type":"base64","media_type":"image/png","data": "` + b64 + `"}}]`), 1, `[result] [{"type":"image","source":{"type":"base64","media_type":"image/png","data": "[640 bytes of base64]"}}]`},
		{"result of another JSON", result(`{"content":"` + b64 + `"}`), 0, `[result] {"content":"[640 bytes of base64]"}`},
		{"data URI", turns.TextPart("see ![x](data:image/svg+xml;charset=utf-8;base64," + b64 + ") and data:image/png;base64,aGk= here"), 2, "see ![x]([image image/svg+xml]) and [image image/png] here"},
		{"arguments", turns.Part{Type: turns.ToolCall, ID: "a", Name: "draw", Arguments: turns.Raw(`{"url":"data:image/png;base64,` + b64 + `"}`)}, 1, `[call draw {"url":"[image image/png]"}]`},
		{"a long name", turns.TextPart(`{"data":"` + strings.Repeat("a", 255) + `"}`), 0, `{"data":"` + strings.Repeat("a", 255) + `"}`},
		{"not base64", turns.TextPart("data:image/svg+xml,%3Csvg and data:image/ and data:image/png;base64"), 0, "data:image/svg+xml,%3Csvg and data:image/ and data:image/png;base64"},
		{"one at the end", turns.TextPart("data:image/gif;base64,"), 1, "[image image/gif]"},
		{"another member", turns.TextPart(`{"hash" : "` + strings.Repeat("a", 256) + `"}`), 0, `{"hash" : "` + strings.Repeat("a", 256) + `"}`},
		{"two members", turns.TextPart(`image {"data" : "` + strings.Repeat("a", 256) + `","bytes":"` + strings.Repeat("b", 300) + `"}`), 2, `image {"data" : "[256 bytes of base64]","bytes":"[300 bytes of base64]"}`},
		{"not closed", turns.TextPart(`{"data":"` + strings.Repeat("a", 256)), 0, `{"data":"` + strings.Repeat("a", 256)},
		{"reasoning", turns.Part{Type: turns.Reasoning, Content: "hm"}, 0, ""},
		{"stored apart", turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Size: 9000, Preview: "begins"}}, 0, "begins [9000 bytes are stored apart]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := HalfTurn{Depth: 1, Tokens: 9, Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{tc.part}}}}
			want := "\n## 1 tool\n"
			if tc.want != "" {
				want += tc.want + "\n"
			}
			if got := Transcript(Input{Halves: []HalfTurn{h}}); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got := Images([]HalfTurn{h, h}); got != 2*tc.images {
				t.Errorf("%d images in two, want %d", got, 2*tc.images)
			}
			plain := Plaintext(h)
			if got := Transcript(Input{Halves: []HalfTurn{plain}}); got != want || plain.Tokens != 0 {
				t.Errorf("as plain text: %q, want %q", got, want)
			}
		})
	}
	if ImagesNote(0) != "" || !strings.Contains(ImagesNote(1), "1 image ") || !strings.Contains(ImagesNote(12), "12 images") {
		t.Errorf("%q, %q", ImagesNote(1), ImagesNote(12))
	}
	if erased := Plaintext(HalfTurn{Erased: true}); erased.Messages != nil || !erased.Erased {
		t.Errorf("%+v", erased)
	}
}

// The twin of cutImages: two expressions, ten to a hundred times slower.
var (
	slowURI    = regexp.MustCompile(`data:(image/[A-Za-z0-9+/=_.-]*)(?:;[A-Za-z0-9+/=_.;-]*)?;base64,[A-Za-z0-9+/=_-]*`)
	slowMember = regexp.MustCompile(`"(data|content|image|base64|b64_json|bytes)"([ \t\r\n]*:[ \t\r\n]*)"([A-Za-z0-9+/=_-]{256,})"`)
)

func FuzzCutImages(f *testing.F) {
	long := strings.Repeat("a", 260)
	for _, seed := range []string{
		"see data:image/png;base64,aGk= here", "data:image/;base64,x;base64,", "data:image/a;b;base64;base64,data:image/b;base64,=",
		`{"data":"` + long + `"}`, `"data" : "` + long + `","bytes":"` + long + `"`, `"data":"data":"` + long + `"` + long, `"image":"` + long,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := slowMember.ReplaceAllStringFunc(slowURI.ReplaceAllString(s, "[image $1]"), func(member string) string {
			m := slowMember.FindStringSubmatch(member)
			return fmt.Sprintf(`"%s"%s"[%d bytes of base64]"`, m[1], m[2], len(m[3]))
		})
		got, n := cutImages(s)
		if got != want || n < 0 || (got == s) != (n == 0) && strings.Contains(got, "image") {
			t.Fatalf("%q: %q with %d images, want %q", s, got, n, want)
		}
	})
}
