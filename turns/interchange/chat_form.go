package interchange

import "io"

// ChatForm is the form that chat messages are written in.
type ChatForm string

// The forms of chat messages. The zero form is detected in each conversation.
const (
	ChatOpenAI    ChatForm = "openai"
	ChatAnthropic ChatForm = "anthropic"
	ChatOTel      ChatForm = "otel"
)

// ChatFormats are the formats of chat messages, one a form.
func ChatFormats() (out []Format) {
	for _, form := range []ChatForm{ChatOTel, ChatAnthropic, ChatOpenAI} {
		out = append(out, Format{
			Name: string(form), Version: 1,
			Sniff: func(head []byte) bool { return SniffChat(head, form) },
			Open:  func(r io.Reader, opt Options) *Reader { return Chat(r, opt, form) },
		})
	}
	return out
}
