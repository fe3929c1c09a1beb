// Package folder knows what lies in a data folder, file by file: whose ledger it is
// (ledger.json), what its log has lost (lost.json), which sessions were erased (erasures), which keys were given
// up (missing.json), and where the mark, the projections and the search index are.
//
// A running daemon and the commands that mend a stopped one (packages storage and mend) meet
// here. It opens neither a server nor a database, and decides nothing that takes the log.
//
// Begin at folder.go; each other file of the package is about one file of the folder.
package folder
