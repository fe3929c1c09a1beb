// Package edits rebuilds the files of an agent's folder from what a transcript records:
// writes, edits, patches and whole reads.
//
// ledgerctl code, fork --worktree and bisect call it for turns whose files nobody recorded.
// It is pure: messages in, files out. It may import turns only, and writes nothing.
//
// It never calls a file exact that it can't vouch for. [Status] and [Reason] say what is
// claimed, [Walk] which steps keep a claim. Everything in a transcript may be forged or
// broken: a path leads below the folder and not into .git, or it is refused and counted,
// and [Limits] bound memory and work.
//
// What it can't see: a program that no call of the session started (an editor, a hook of the
// agent, a process that a command left behind), a link that gives a file two names, line
// ends and encodings that the agent's tools hide.
//
// Begin at [Walk] in walk.go. Each agent's tools have a file of their own.
package edits
