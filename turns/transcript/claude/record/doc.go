// Package record decodes one line of a transcript of Claude Code: what it is, which line it hangs
// on, and what it says of its session.
//
// Package claude calls it for each line, and folds the lines into turns. It knows no other line. It
// may import turns and its values. It is pure.
//
// Begin at [Parse]; [Line] has all that is read.
package record
