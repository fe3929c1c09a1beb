package edits

// Status says how well the content of a file is known.
type Status string

const (
	// Exact: the transcript shows the whole content, and of all that came since only edits
	// whose outcome follows from it. Line ends and encoding are those that the agent's tools
	// show.
	Exact Status = "exact"
	// Recorded: the content is as last recorded, and something came since that may have
	// changed it, or one step to it is likely and not certain.
	Recorded Status = "recorded"
	// Unknown: the session changed the file, and what is in it is not known.
	Unknown Status = "unknown"
)

// Reason says why a file is not exact.
type Reason string

// The reasons of Recorded.
const (
	ReasonCommand  Reason = "command"
	ReasonRunning  Reason = "running"
	ReasonAgent    Reason = "agent"
	ReasonTool     Reason = "tool"
	ReasonUser     Reason = "user"
	ReasonFork     Reason = "fork"
	ReasonLate     Reason = "late"
	ReasonParallel Reason = "parallel"
	ReasonShell    Reason = "shell_read"
	ReasonBase     Reason = "base"
	ReasonAltered  Reason = "altered"
	ReasonEncoding Reason = "encoding"
	ReasonNames    Reason = "names"
)

// The reasons of Unknown.
const (
	ReasonNoBase     Reason = "no_base"
	ReasonNotApplied Reason = "not_applied"
	ReasonDiffers    Reason = "differs"
	ReasonFailed     Reason = "failed"
	ReasonUnanswered Reason = "unanswered"
	ReasonUnread     Reason = "unread"
	ReasonTooLarge   Reason = "too_large"
)

// The reasons for which a path of the transcript is refused.
const (
	ReasonOutside   Reason = "outside"
	ReasonGitFolder Reason = "git_folder"
	ReasonBadPath   Reason = "bad_path"
	ReasonTooMany   Reason = "too_many"
)

// Text returns the reason as words that follow the name of a file.
func (r Reason) Text() string {
	switch r {
	case ReasonCommand:
		return "a command ran since, which may have changed it"
	case ReasonRunning:
		return "a command was still running"
	case ReasonAgent:
		return "another agent worked in the folder"
	case ReasonTool:
		return "a tool ran since whose effects are not known"
	case ReasonUser:
		return "a user's message came since; the user may have changed it"
	case ReasonFork:
		return "the session was forked since; what the other branch did to it is not on this path"
	case ReasonLate:
		return "a call is without a result, and may still change it"
	case ReasonParallel:
		return "calls that ran at the same time changed it"
	case ReasonShell:
		return "a command printed it, and its output may hold more"
	case ReasonBase:
		return "it follows from the base commit, and whether the folder was as committed is not known"
	case ReasonAltered:
		return "the agent's tool may have changed the text that it was given"
	case ReasonEncoding:
		return "its line ends or its encoding may be others"
	case ReasonNames:
		return "another file's name differs in case only; they may be one"
	case ReasonNoBase:
		return "it was edited, and what it held before is not known"
	case ReasonNotApplied:
		return "an edit that succeeded does not fit what was rebuilt: something else had changed it"
	case ReasonDiffers:
		return "a later call shows that something else had changed it"
	case ReasonFailed:
		return "a call that changes it failed"
	case ReasonUnanswered:
		return "a call that changes it has no result"
	case ReasonUnread:
		return "a call that changes it can't be read"
	case ReasonTooLarge:
		return "it is over the limits"
	case ReasonOutside:
		return "outside the folder"
	case ReasonGitFolder:
		return "inside a .git folder"
	case ReasonBadPath:
		return "no path that a file can have"
	case ReasonTooMany:
		return "more files than the limit"
	}
	return ""
}
