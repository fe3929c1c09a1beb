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
// at [Step] and [Source]. No reader is small, and none shows everything; read
//
//   - gemini/gemini.go for the plainest: a list of messages, without a tree;
//   - pi/pi.go for one object a line in a tree, with forks that copy their parent;
//   - keyMessage in gemini/gemini.go and contentKey in codex/turn.go for ids where records have
//     none;
//   - end and turn in gemini/gemini.go for a turn that is pending at the end of the file;
//   - codex/turn.go and claude/turn.go for a response of several lines, claude/state.go for
//     when it is complete;
//   - turn in gemini/gemini.go and timeOf in codex/turn.go for the bound of a time that is not
//     stated.
package transcript
