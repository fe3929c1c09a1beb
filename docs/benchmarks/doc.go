// Command benchmarks does the same work with Nexus and with what people would
// use in its place, in turns within one run, and writes a Markdown table and SVG plots.
//
// It is a module of its own, so that nothing of Nexus depends on the databases that it
// is compared with. It needs Linux: CPU time and fsyncs of other processes are read
// there. README.md says what each row means and what it can't see.
//
// Begin at main.go; then load.go, which measures a [system], and system.go, which
// lists them. A peer is a file: nexus.go, jetstream.go, sqlite.go, postgres.go, jsonb.go,
// langgraph.go, adk.go, embedded.go; process.go speaks with those in a process of their own. The works
// beside appends are agents.go, transcripts.go, lineage.go and requests.go. report.go and plot.go
// write what was measured. The folder adk is a module of its own: what it brings, nothing else here has.
package main
