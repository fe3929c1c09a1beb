// Package transcript says what a transcript of another agent is for the ledger: the steps
// that reading it gives ([Step], [Reader], [Follower]), what was lost ([Loss]), and how a
// path is written as one ([Writer]). It is pure: bytes in, steps out. It imports packages
// turns and tokens only, and knows no session of the ledger.
//
// Each format has a package of its own below this one, with one [Format]: claude, codex,
// pi, gemini, and chat, which reads chat messages and, with otlp, spans of OpenTelemetry.
// Package formats has the table of them, which everything else ranges over.
//
// A new format: a package beside them that embeds a [Source], and a row of formats. Begin
// at [Step] and [Source]; pi is the smallest example.
package transcript
