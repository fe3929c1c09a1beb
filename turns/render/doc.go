// Package render renders the messages of a context for providers: [Anthropic], [OpenAI],
// [Gemini] and [OTel]; and reads messages in the forms of two of them ([FromAnthropic],
// [FromOpenAI]). It is pure and asks no provider. Package strict, below, is a reader as
// strict as the providers are, for tests.
//
// exchange.go groups messages as every provider wants them; each provider has a file; a
// [Memo] renders a context that begins as the last one did.
package render
