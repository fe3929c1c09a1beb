package fault

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/compactor/policy"
	"nexus/ledger/api"
)

// Next is the next command after an error of cmd, where one helps.
func Next(cmd *cobra.Command, err error) string {
	var of interface{ Hint() string } // of a package below
	var x *api.Error
	typed := errors.As(err, &x)
	switch {
	case HintIn(err) != "":
		return HintIn(err)
	case errors.As(err, &of):
		return of.Hint()
	case typed && policyHint(x) != "":
		return policyHint(x)
	case IsUsage(err):
		if cmd == nil || !cmd.HasParent() {
			return verbsHint
		}
		return "ledgerctl help " + topVerb(cmd)
	case !typed:
		return ""
	}
	switch x.Code {
	case api.Denied:
		if strings.HasPrefix(x.Message, "the NATS server") {
			return "--agent names the agent that your NATS user may speak for"
		}
		if strings.HasPrefix(x.Message, "user ") {
			return "--agent names an agent that this user may act as, --creds another user"
		}
	case api.Internal:
		if id, ok := x.Details["id"].(string); ok {
			return "look for " + id + " in what nexusd wrote to its stderr, and report it"
		}
	case api.Corrupt:
		if _, missing := x.Details["key"]; missing {
			return "the operator stops nexusd, puts the key back from a backup with nexusd keys, and starts it"
		}
		if last, ok := x.Details["last_turn"].(string); ok {
			return "ledgerctl log SESSION/" + last + " lists what is before that, fork goes on from there"
		}
		if cmd != nil && cmd.Name() != "verify" {
			return "ledgerctl verify lists what is damaged"
		}
	case api.Unavailable:
		if x.Details["reason"] == "disk" {
			return "make room on the disk of nexusd, or read in its log why it takes no writes; it goes on by itself"
		}
		if x.Answered() {
			return "nexusd runs and answers so; ledgerctl doctor and its log say more"
		}
		return "is nexusd running on that server? start it with: nexusd"
	case api.Conflict:
		if id, ok := x.Details["session"].(string); ok {
			return "ledgerctl session show " + id + ", or take another label"
		}
	case api.Closed:
		if id, ok := x.Details["successor"].(string); ok {
			return "it goes on in session " + id + ": ledgerctl session show " + id
		}
		return "ledgerctl fork SESSION goes on from its head in a new session"
	case api.NotFound:
		switch {
		case cmd != nil && topVerb(cmd) == "memory":
			return "ledgerctl memory list lists what there is"
		case cmd != nil && topVerb(cmd) == "policy":
			return "ledgerctl policy list lists them"
		case cmd != nil && topVerb(cmd) == "event":
			return "ledgerctl event channels lists the channels, of all agents unless --agent names one"
		}
		return SessionHint
	}
	return ""
}

// SessionHint is what to type after a name that no session has.
const SessionHint = "ledgerctl sessions lists what there is"

// policyHint is what to type after a policy that there is not; "" after another error.
func policyHint(x *api.Error) string {
	if field, _ := x.Details["field"].(string); strings.HasPrefix(field, "/policy/") && strings.Contains(x.Message, "unknown field") {
		if n := nearest(field[strings.LastIndexByte(field, '/')+1:], settingNames()); n != "" {
			return "did you mean " + n + "? ledgerctl policy show balanced lists the settings"
		}
	}
	name, ok := policyMissed(x)
	if !ok {
		return ""
	}
	if n := nearest(name, policy.Names()); n != "" {
		return "did you mean " + n + "? ledgerctl policy list lists them"
	}
	return "ledgerctl policy list lists them; where an import brought a session without the name of its policy, session show has the digest that policy show takes"
}

// settingNames is the settings of a policy, by the names that their JSON has.
func settingNames() (names []string) {
	for f := range reflect.TypeFor[policy.Policy]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// topVerb is the verb that has a page of the manual.
func topVerb(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// NoVerb is the error of a verb, or a part of one, that does not exist.
func NoVerb(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	path := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "ledgerctl") + " " + name)
	err := Usage(fmt.Errorf("there is no verb %q", path))
	if as := elsewhere[path]; as != "" {
		return WithHint(err, "did you mean "+as+"?")
	}
	if n := nearest(name, names); n != "" {
		return WithHint(err, "did you mean "+strings.TrimSuffix(path, name)+n+"?")
	}
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' }) { // scan-secrets
		if slices.Contains(names, word) {
			return WithHint(err, "did you mean "+strings.TrimSuffix(path, name)+word+"?")
		}
	}
	if !cmd.HasParent() {
		return WithHint(err, verbsHint)
	}
	return WithHint(err, cmd.Name()+" has "+strings.Join(names, ", ")+"; ledgerctl help "+topVerb(cmd))
}

// elsewhere are words that other tools have for a verb, and what it is here.
var elsewhere = map[string]string{
	"ps": "sessions", "find": "search", "query": "search", "handoff": "continue",
	"check": "verify", "audit": "verify", "checkpoint": "prove --checkpoint", "branch": "fork", "reset": "rewind, or session reset", "undo": "rewind, or import --undo", "delete": "session hide, or erase", "rm": "session hide, or erase", "remove": "session hide, or erase", "purge": "erase", "shred": "erase", "forget": "erase", "hide": "session hide", "unhide": "session unhide", "tag": "session tag", "title": "session title", "note": "turn note", "checkout": "rewind", "revert": "rewind",
	"usage": "cost", "costs": "cost", "status": "doctor", "health": "doctor", "info": "doctor", "scan": "secrets", "leaks": "secrets",
	"cat": "show", "get": "show", "view": "show", "read": "log", "history": "log", "logs": "log", "add": "append", "new": "append new", "send": "append", "say": "append",
	"summarize": "compact", "summary": "expand", "lineage": "tree", "forks": "tree", "install": "hook install, or service install",
	"ingest": "import", "sync": "watch", "follow": "tail -f", "remember": "memory save", "dump": "export", "clone": "fork", "prompt": "context",
	"policy set": "session set SESSION --policy NAME --set KEY=VALUE", "session rewind": "rewind", "session fork": "fork", "session compact": "compact", "session delete": "session hide, or erase", "session note": "turn note",
	"session log": "log", "sessions log": "log", "import watch": "watch",
}

// FlagError says what is wrong with a flag, without the words of a parser.
func FlagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		takes := map[string]string{"uint64": "a whole number, 0 or more", "int": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a time, as 30s or 5m"}[f.Value.Type()]
		if takes == "" {
			takes = "a " + f.Value.Type()
		}
		return Usage(fmt.Errorf("--%s takes %s, not %q", f.Name, takes, value.GetValue()))
	case errors.As(err, &missing):
		if words := cmd.Flags().Args(); !cmd.HasParent() && len(words) > 0 { // of no verb, so that its flags are unknown, too
			return NoVerb(cmd, words[0])
		}
		var names []string
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		if n := nearest(missing.GetSpecifiedName(), names); n != "" {
			return WithHint(Usage(err), "did you mean --"+n+"?")
		}
		if hint := flagOfParts(cmd, missing.GetSpecifiedName()); hint != "" {
			return WithHint(Usage(err), hint)
		}
	}
	return Usage(err)
}

// flagOfParts says which parts of a verb have the flag that a person most likely meant; ""
// if none has.
func flagOfParts(cmd *cobra.Command, typed string) string {
	var flag string
	var parts []string
	for _, part := range cmd.Commands() {
		var names []string
		part.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		n := nearest(typed, names)
		if slices.Contains(names, typed) {
			n = typed
		}
		if n != "" && (flag == "" || flag == n) {
			flag, parts = n, append(parts, cmd.Name()+" "+part.Name())
		}
	}
	if flag == "" {
		return ""
	}
	return "--" + flag + " is a flag of " + strings.Join(parts, ", ")
}

// nearest is the one of names that a person most likely meant, who typed
// something else, as cobra suggests verbs; "" for none.
func nearest(typed string, names []string) string {
	var among cobra.Command
	for _, n := range names {
		among.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	for edits := 1; edits <= min(2, (len(typed)+1)/2); edits++ {
		among.SuggestionsMinimumDistance = edits
		for _, s := range among.SuggestionsFor(typed) {
			if edits == 1 || len(typed) > 4 || strings.HasPrefix(s, typed) || sameLetters(s, typed) {
				return s
			}
		}
	}
	return ""
}

// sameLetters reports whether two words differ at most in the order of their letters. Two
// other edits make another word of one of four letters: help of keep.
func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
