// Package codeview is the recorded files of turns as a person asks for them: shown, and put into a
// folder beside a fork.
//
// ledgerctl code and fork --worktree call it, and bisect asks it for the repository that has them.
// codetree records the files and reads what was recorded.
//
// Begin at [Show] and [Fork].
package codeview
