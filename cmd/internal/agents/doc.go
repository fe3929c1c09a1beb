// Package agents is the table of the coding agents that transcripts come from and sessions
// go to: where Claude Code, Codex, pi and Gemini CLI keep their transcripts and settings, by
// the variables and settings that they read, and how each is told to resume a transcript.
//
// watch, hooks, continue and service call it, and nexusd for its own watch. It may import
// the formats of transcripts. It reads settings of agents and changes nothing.
//
// A new agent is one row of [All]; one that is only read has no folder, file and resume.
// Begin there.
package agents
