// Package content reads what the messages in lines of Claude Code hold: blocks as parts of messages,
// usage as counts, and which texts a program wrote in the name of the user.
//
// Package claude calls it. It knows no line and no turn. It may import turns and its values. It is
// pure.
//
// Begin at [Part] in content.go; usage.go counts tokens, program.go knows texts of programs.
package content
