package policy

// RecordedName is the name of [AsRecorded], a baseline.
const RecordedName = "recorded"

// AsRecorded returns the policy under which a path shows what an agent had in view, as
// far as its source tells: the compactions on the path come into force where they stand,
// and no other is made.
//
// What a source does not hold is missing: a system part and tools that it does not
// record, and what its agent left out of a call without a record of that. A source
// without records of compactions shows everything at every call.
func AsRecorded() Policy {
	p, _ := Builtin("balanced")
	p.Name, p.Version, p.Mode = RecordedName, 1, Manual
	return p
}
