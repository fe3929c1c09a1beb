// Package write writes turns as a transcript of Claude Code, which it resumes.
//
// It is the other direction of package claude, whose row in the table of formats names [New]. It may
// import turns, its values and the forms of providers, and the contract of transcripts. It is pure.
//
// Begin at [Writer.Turn].
package write
