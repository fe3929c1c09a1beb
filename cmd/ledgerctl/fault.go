package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"nexus/cmd/ledgerctl/transcripts"
	"nexus/ledger/api"
	"nexus/turns"
)

// verbsHint is what to type after a verb that there is not.
const verbsHint = "ledgerctl help lists the verbs, ledgerctl help VERB one with an example"

// usageError is a command that was typed wrong.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// isUsage reports whether a command was typed wrong.
func isUsage(err error) bool {
	return errors.As(err, &usageError{}) || errors.As(err, &transcripts.UsageError{})
}

// hinted is an error that knows what to type next.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// hint is the next command after an error of cmd, where one helps.
func hint(cmd *cobra.Command, err error) string {
	var h hinted
	var of interface{ Hint() string } // of a package below
	var x *api.Error
	typed := errors.As(err, &x)
	switch {
	case errors.As(err, &h):
		return h.hint
	case errors.As(err, &of):
		return of.Hint()
	case typed && policyHint(x) != "":
		return policyHint(x)
	case isUsage(err):
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
			return "the operator stops nexusd, copies the files of a backup's keys/ that are missing into keys/, replaces none, and starts it"
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
		return "is nexusd running on that server? start it with: nexusd"
	case api.Conflict:
		if id, ok := x.Details["session"].(string); ok {
			return "ledgerctl sessions show " + id + ", or take another label"
		}
	case api.Closed:
		if id, ok := x.Details["successor"].(string); ok {
			return "it goes on in session " + id + ": ledgerctl sessions show " + id
		}
	case api.NotFound:
		switch {
		case cmd != nil && topVerb(cmd) == "memory":
			return "ledgerctl memory list lists what there is"
		case cmd != nil && topVerb(cmd) == "events":
			return "ledgerctl events channels lists the channels, of all agents unless --agent names one"
		}
		return sessionHint
	}
	return ""
}

// sessionHint is what to type after a name that no session has.
const sessionHint = "ledgerctl sessions lists what there is"

// policyHint is what to type after a policy that there is not; "" after another error.
func policyHint(x *api.Error) string {
	name, ok := policyMissed(x)
	if !ok {
		return ""
	}
	if n := nearest(name, policyNames()); n != "" {
		return "did you mean " + n + "? ledgerctl policies lists them"
	}
	return "ledgerctl policies lists them; where an import brought a session without the name of its policy, sessions show has the digest that policy show takes"
}

// topVerb is the verb that has a page of the manual.
func topVerb(cmd *cobra.Command) string {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.Name()
}

// plainly is an error's text for a person: without the code that follows from the
// exit status, and without the places in a request that the person did not write.
func plainly(cmd *cobra.Command, err error) string {
	text := err.Error()
	var x *api.Error
	if !errors.As(err, &x) {
		var file *fs.PathError
		if errors.As(err, &file) {
			text = strings.Replace(text, file.Error(), file.Path+": "+file.Err.Error(), 1)
		}
		return strings.ReplaceAll(text, turns.ErrMalformed.Error()+": ", "")
	}
	said := x.Message
	if name, ok := policyMissed(x); ok {
		said = fmt.Sprintf("there is no policy %q", name)
	} else if field, ok := x.Details["field"].(string); ok && (cmd == nil || cmd.CommandPath() != "ledgerctl append") { // who appends may have written JSON
		if strings.HasPrefix(said, field+": ") {
			said = faultField.ReplaceAllStringFunc(said, func(s string) string {
				begin, pointer, _ := strings.Cut(s, "/")
				return begin + memberName("/"+strings.TrimSuffix(pointer, ": ")) + ": "
			})
		}
	}
	return strings.Replace(text, x.Error(), said, 1)
}

// faultField is where a message that lists faults names a member of the request.
var faultField = regexp.MustCompile(`(^|; )/[^ ;]+: `)

// memberName is what a person calls a member of a request: /policy/set/keep_tokens
// is "policy keep_tokens".
func memberName(field string) string {
	switch field {
	case "/limits/context_window":
		return "--window"
	case "/limits/max_output_tokens":
		return "--output"
	}
	var words []string
	for w := range strings.SplitSeq(strings.Trim(field, "/"), "/") {
		if w != "set" && w != "limits" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// policyMissed is the name of a policy that the daemon does not have.
func policyMissed(x *api.Error) (name string, ok bool) {
	if f, _ := x.Details["field"].(string); x.Code != api.Malformed || f != "/policy/name" {
		return "", false
	}
	_, after, ok := strings.Cut(x.Message, `"`)
	name, _, closed := strings.Cut(after, `"`)
	return name, ok && closed
}

// noVerb is the error of a verb, or a part of one, that does not exist.
func noVerb(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	path := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "ledgerctl") + " " + name)
	err := usageError{fmt.Errorf("there is no verb %q", path)}
	if n := nearest(name, names); n != "" {
		return hinted{err, "did you mean " + strings.TrimSuffix(path, name) + n + "?"}
	}
	if !cmd.HasParent() {
		return hinted{err, verbsHint}
	}
	return err
}

// flagError says what is wrong with a flag, without the words of a parser.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		takes := map[string]string{"uint64": "a whole number, 0 or more", "int": "a whole number", "bool": "true or false"}[f.Value.Type()]
		if takes == "" {
			takes = "a " + f.Value.Type()
		}
		return usageError{fmt.Errorf("--%s takes %s, not %q", f.Name, takes, value.GetValue())}
	case errors.As(err, &missing):
		var names []string
		for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		if n := nearest(missing.GetSpecifiedName(), names); n != "" {
			return hinted{usageError{err}, "did you mean --" + n + "?"}
		}
	}
	return usageError{err}
}

// noServer is why there is no connection to a NATS server.
func noServer(server string, err error) error {
	var dns *net.DNSError
	var insecure *api.TLSError
	switch {
	case errors.As(err, &insecure):
		return hinted{api.Errorf(api.Unavailable, nil, "connect to %s: %v", server, insecure), insecure.Remedy + " (--tls-ca FILE or NEXUS_TLS_CA)"}
	case errors.As(err, &dns):
		return hinted{api.Errorf(api.Unavailable, nil, "connect to %s: there is no host %q", server, dns.Name),
			"--server nats://HOST:PORT or NEXUS_URL says where nexusd's server is"}
	case errors.Is(err, nats.ErrNoServers):
		return api.Errorf(api.Unavailable, nil, "connect to %s: nothing answers there", server)
	case errors.Is(err, nats.ErrAuthorization):
		return hinted{api.Errorf(api.Unavailable, nil, "connect to %s: the server wants other credentials", server),
			"--creds FILE or NEXUS_CREDS names them: nexusd prints the file when it starts (users/operator.nk in its data folder)"}
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return hinted{api.Errorf(api.Unavailable, nil, "connect to %s: the server asks for no credentials", server), "leave out --creds, and unset NEXUS_CREDS"}
	}
	return api.Errorf(api.Unavailable, nil, "connect to %s: %s", server, strings.TrimPrefix(err.Error(), "nats: "))
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
		if s := among.SuggestionsFor(typed); len(s) > 0 {
			return s[0]
		}
	}
	return ""
}
