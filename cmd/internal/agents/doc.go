// Package agents knows the folders of coding agents: where Claude Code, Codex, pi and
// Gemini CLI keep their transcripts and settings, by the variables and settings that they
// read.
//
// watch, hooks, continue and service call it, and nexusd for its own watch. It may import
// the formats of transcripts. It reads settings of agents and changes nothing.
//
// Begin at [Home].
package agents
