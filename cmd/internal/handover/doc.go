// Package handover lets another agent go on with a session: it knows how each agent
// names its transcripts and is told to resume one, writes a path as such a transcript, and
// finds the place of what comes back.
//
// ledgerctl continue and ledgerctl import call it. It may import the turns, the formats
// of transcripts and the folders of agents. It asks no ledger: the caller forks, supplies the path, and stores.
//
// Begin at [Agents]; [Transcript.Save] writes, [NewJoint] reads what comes back.
package handover
