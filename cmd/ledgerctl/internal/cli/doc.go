// Package cli is what every verb of ledgerctl works with: the terminal, the connection, what finds
// sessions and turns over it, and the few things that several verbs do with these.
//
// Package main fills an [Env] from flags and hands it to the room that does a verb's work; a test
// makes one of a terminal alone. It imports terminal, connect and names, and no room of a verb.
//
// Begin at [Env]; program.go is about the file of this program, for what runs it later.
package cli
