// Package explorer serves the pages on which a person with a browser looks at the ledger, and
// acts on it: below /ui/ of the daemon's HTTP.
//
// The daemon makes it, and answers ui.open with [Explorer.Open]. It logs people in, refuses other
// origins, and has the pages of what the daemon knows of itself. The others are in rooms, each of which
// imports only those before it: login (codes and cookies), visit (one request, templates), live and
// costs, views (what is shown), compare and acts. Each page asks the service as a NATS client does, as the tenant
// and agent of whoever asked for the login; no page reads a store.
//
// A transcript is hostile text. html/template escapes all of it; the only HTML that is not of a
// template is what package page makes of a model's Markdown, and highlight of the code in it. The policy of every page allows the
// explorer's own script and style by their files, nothing inline, and no assignment of HTML by a
// script (decision 96).
//
// Begin at routes in explorer.go; each room has the table of its pages in a function Pages.
package explorer
