package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

// Plainly is an error's text for a person: without the code that follows from the
// exit status, and without the places in a request that the person did not write.
func Plainly(cmd *cobra.Command, err error) string {
	text := err.Error()
	var x *api.Error
	if !errors.As(err, &x) {
		var file *fs.PathError
		if errors.As(err, &file) {
			text = strings.Replace(text, file.Error(), file.Path+": "+file.Err.Error(), 1)
		}
		return strings.NewReplacer(turns.ErrMalformed.Error()+": ", "", "jsontext: ", "").Replace(text)
	}
	said := strings.TrimPrefix(x.Message, string(x.Code)+": ") // of an error that became one of a code
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
	if f, _ := x.Details["field"].(string); (x.Code != api.Malformed && x.Code != api.NotFound) || f != "/policy/name" {
		return "", false
	}
	_, after, ok := strings.Cut(x.Message, `"`)
	name, _, closed := strings.Cut(after, `"`)
	return name, ok && closed
}
