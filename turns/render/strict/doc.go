// Package strict checks the messages of a request against the rules of the
// provider that it is for, as the provider's server does, before anything is
// sent. It reads JSON and shares no code with what renders it: the renderers
// are tested against it, and a request from elsewhere can be tested too.
//
// Some servers are lenient in one version and strict in another: one merges
// consecutive messages of one role, the next refuses them. Then the strict reading
// is taken. Each rule names what the server says, or where its documentation says
// it. Rules on models, prices and tokens are not here.
//
// Only tests call it. It imports package turns only. Begin at [Anthropic],
// [OpenAI] or [Gemini].
package strict
