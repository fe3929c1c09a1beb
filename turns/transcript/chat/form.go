package chat

import (
	"io"
	"nexus/turns/transcript"
)

// Form is the form that chat messages are written in.
type Form string

// The forms of chat messages. The zero form is detected in each conversation.
const (
	OpenAI    Form = "openai"
	Anthropic Form = "anthropic"
	OTel      Form = "otel"
)

// Formats are the formats of chat messages, one a form.
func Formats() (out []transcript.Format) {
	for _, form := range []Form{OTel, Anthropic, OpenAI} {
		out = append(out, transcript.Format{
			Name: string(form), Version: 1, RelatedByID: true,
			Sniff: func(head []byte) bool { return Sniff(head, form) },
			Open:  func(r io.Reader, opt transcript.Options) *transcript.Reader { return Read(r, opt, form) },
		})
	}
	return out
}
