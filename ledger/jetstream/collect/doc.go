// Package collect removes the blobs that no event names, after a grace time.
//
// A stream refuses to delete one message, so that neither a defect nor an attacker takes a
// turn away. [Run] copies the chunks that stay into a new stream, reads them back, lets the
// mark name the new stream, and removes the old one as a whole. Decision 21 says why.
//
// What stays: every chunk of a blob that an event on the log names in its header, that a
// request relied on within [jetstream.HoldTime], or of which a chunk is younger than the
// grace time. An event is never removed, so a blob that is named once stays for ever.
//
// Only a daemon with the embedded server collects: it is the only one on its folder. The
// daemon calls Run. Begin at Run in collect.go; read.go reads the files.
package collect
