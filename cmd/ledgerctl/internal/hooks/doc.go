// Package hooks is the work of ledgerctl hook: it edits the settings of coding agents so that they
// call ledgerctl, says which hooks there are, and answers what an agent calls with.
//
// Package main calls it. An edit changes no byte of the settings but its own, and can be undone.
//
// Begin at [Change] and [Answer]. settings.go edits settings, and has no I/O; files.go reads and
// replaces the files, and notes when a hook fired; status.go says what is there.
package hooks
