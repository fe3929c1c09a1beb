// Command ledgerctl reads, changes and audits a ledger of agents' conversations.
//
// It is a client like any other: every verb of a ledger goes through package api,
// and none opens the log or the projections. The importers read transcripts with
// the packages of turns/transcript; compare replays them without a daemon; quickstart starts a
// daemon of its own.
//
// Begin at main.go, which lists the verbs. Each verb has a file of its name or of
// its group: it reads flags into options and makes one call into a room below, which does
// the work with what package cli has. The rooms, lowest first:
//
//	prose, fault, terminal        what every command prints with: words, errors, tables
//	connect, names, help, cli     the way to a ledger; what a person types; the manual;
//	                              what every verb works with
//	turnview, sessionview,        turns, sessions and trees, contexts, events, memories
//	contextview, eventview,       and hits of a search, as lines and tables
//	memoryview, searchview
//	sessions, history, erasure    what is done with sessions and their turns
//	plot, textdiff                pictures as SVG; texts compared line by line
//	policies, comparison, cost    policies, and how they compare; what calls cost
//	transcripts, imports,         transcripts in, and what a person reads about it
//	importreport
//	export, archive, page,        sessions out: files, checks of them, pages,
//	handover, continuation,       transcripts for other agents, the files of a folder
//	codetree, codeview
//	audit, backups,               what is damaged, and what is kept against it;
//	doctor, bench                 what is set up wrong; how fast it is
//	watch, follow, hooks, pi,     agents at work: what follows them, what they call,
//	service, services, agents,    what keeps it running
//	wholefile
//	local, quickstart             a daemon of the command's own, and the walk on it
//	bisect, expansion, picker     the turn that broke it; what a summary lost; a list
//	completion                    what a shell completes
package main
