// Package providertest is a provider of models for tests: an HTTP server that speaks
// OpenAI's chat completions, OpenAI's responses and Anthropic's messages, and answers by a
// script.
//
// It refuses what the real servers refuse (a tool call without its result, a wrong order of
// roles), counts the calls of each prompt, and lets a test hold a stream and let it go on
// piece by piece. [Auto] is a script for clients that are not ours: it answers by what the
// prompt says.
//
// Only tests import it. Begin at [Start] and [Answer].
package providertest
