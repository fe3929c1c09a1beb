// Package pieces checks the content of a part that is read in pieces, because it is too large to be
// loaded whole: UTF-8, and one JSON value where the part says so.
//
// [turns.Message.Validate] checks content that is whole; the two accept the same but for
// members of one name. The engine's package content calls it. It imports package turns only, and
// has a few bytes of memory, whatever the content is.
//
// Begin at [Scanner] in scanner.go.
package pieces
