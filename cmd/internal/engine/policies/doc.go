// Package policies stores compaction policies on their tenant's chain, and lists
// them.
//
// The content of a session's policy is stored by its digest before the event that
// names it ([Policies.Store]), once a tenant. Agents put policies of their own
// under names ([Policies.PutPolicy]): versions count up by one, and one agent
// puts all versions of a name.
//
// compactions, sessions, forks and transfer call it, natsapi above them. Package
// reader finds what is stored. Begin at [Policies.Store].
package policies
