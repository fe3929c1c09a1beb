// Package handover lets another agent go on with a session: it writes a
// path as the transcript that the agent resumes, and finds the place of what comes back.
//
// ledgerctl continue and ledgerctl import call it. It may import the turns, the formats
// of transcripts and the folders of agents. It asks no ledger: the caller forks, supplies the path, and stores.
//
// Begin at [Transcript]; [Transcript.Save] writes, [NewJoint] reads what comes back.
package handover
