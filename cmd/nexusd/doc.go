// Command nexusd is the daemon of a ledger for the conversations of AI agents.
//
// It reads flags, environment and a configuration file (flags.go), makes the models
// that write summaries (summarizer.go), opens a [daemon.Daemon], prints one line of
// JSON when it can serve, and closes the daemon on SIGINT, SIGTERM or SIGHUP (main.go).
// The exit status tells why it ended; docs/OPERATIONS.md lists them.
//
// What must not come in: anything that a Go program with the ledger in its own process
// would need too. That belongs in package daemon, which does the work.
//
// The tests of the whole project are here too: imports_test.go holds which package may
// import which, and designs_test.go and operations_test.go hold pages of docs against
// the code.
//
// Begin at run in main.go.
package main
