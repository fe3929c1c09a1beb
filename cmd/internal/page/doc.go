// Package page writes a session as one HTML or Markdown file for people.
//
// ledgerctl export calls it. It may import the turns, the client's types, the masks of
// credentials, and what tells a person's words from those of a program. It makes no
// request: the caller supplies the turns and the content of blobs.
//
// Begin at [New], which reads the turns into a [Page]; [Page.HTML] and [Page.Markdown]
// write it. A transcript is hostile text: html/template escapes all of it, and the only
// HTML that is not from the template is what prose.go makes of a model's Markdown, which
// passes no HTML, picture or script of the text through.
package page
