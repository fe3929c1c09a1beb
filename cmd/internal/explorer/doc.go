// Package explorer serves the pages on which a person with a browser looks at the ledger, and
// acts on it: below /ui/ of the daemon's HTTP.
//
// The daemon makes it, and answers ui.open with [Explorer.Open]. Each page asks the service as a
// NATS client does, as the tenant and agent of whoever asked for the login; no page reads a store.
// It imports the client, the wire contract, what shows turns (page), colours of code (highlight),
// the kinds of content, prices, and package login below it, which knows codes and cookies.
//
// A transcript is hostile text. html/template escapes all of it; the only HTML that is not of a
// template is what package page makes of a model's Markdown, and highlight of the code in it. The policy of every page allows the
// explorer's own script and style by their files, nothing inline, and no assignment of HTML by a
// script (decision 96).
//
// Begin at [Explorer.Handler] in explorer.go; templates/ has the pages, assets/ the style and the
// script. Each page is a file here: it asks, and fills a struct for its template.
package explorer
