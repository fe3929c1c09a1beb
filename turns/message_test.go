package turns

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetContentFillsTheFieldOfTheType(t *testing.T) {
	b := []byte(`{"n":1}`)
	for _, want := range []Part{
		{Type: Text, Content: string(b)},
		{Type: Reasoning, Content: string(b)},
		{Type: ToolCall, ID: "c", Name: "ls", Arguments: b},
		{Type: ToolCallResponse, ID: "c", IsError: true, Response: b},
		{Type: Blob, Modality: "image", MimeType: "image/png", Data: b},
		{Type: URI, Modality: "image", Content: string(b)},
		{Type: File, Content: string(b)},
	} {
		got := Part{Type: want.Type, ID: want.ID, Name: want.Name, IsError: want.IsError, Modality: want.Modality, MimeType: want.MimeType,
			Ref: &BlobRef{Size: uint64(len(b))}}
		got.SetContent(b)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", want.Type, d)
		}
	}
}
