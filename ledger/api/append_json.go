package api

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// AppendJSON appends what [turns.EncodeJSON] returns for a to out. It is the reply that a busy ledger writes most, and the
// library finds its members by reflection.
func (a *Appended) AppendJSON(out []byte) (_ []byte, err error) {
	out = appendWholeID(append(out, `{"id":"`...), a.ID)
	out = appendWholeID(append(out, `,"session":"`...), a.Session)
	if a.Parent == nil {
		out = append(out, `,"parent":null`...)
	} else {
		out = appendWholeID(append(out, `,"parent":"`...), *a.Parent)
	}
	out = strconv.AppendUint(append(out, `,"depth":`...), a.Depth, 10)
	out, _ = a.Hash.AppendText(append(out, `,"hash":"`...))
	if out, err = jsontext.AppendQuote(append(out, `","position":`...), a.Position); err != nil {
		return out, err
	}
	out = strconv.AppendUint(append(out, `,"context":{"tokens":`...), a.Context.Tokens, 10)
	out = strconv.AppendUint(append(out, `,"budget":`...), a.Context.Budget, 10)
	out = append(append(out, `,"pressure":`...), jsontext.Float(a.Context.Pressure).String()...)
	out = strconv.AppendBool(append(out, `,"estimated":`...), a.Context.Estimated)
	if out, err = appendWord(append(out, `},"compaction":{"state":`...), a.Compaction.State); err != nil {
		return out, err
	}
	out = strconv.AppendBool(append(out, `},"flush":{"due":`...), a.Flush.Due)
	out = strconv.AppendUint(append(out, `,"cycle":`...), a.Flush.Cycle, 10)
	out = append(out, '}')
	for _, list := range []struct {
		member string
		calls  []string
	}{{`,"open_calls":[`, a.Open}, {`,"abandoned_calls":[`, a.Abandoned}, {`,"late_calls":[`, a.Late}} {
		if len(list.calls) == 0 {
			continue
		}
		out = append(out, list.member...)
		for i, call := range list.calls {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = jsontext.AppendQuote(out, call); err != nil {
				return out, err
			}
		}
		out = append(out, ']')
	}
	if a.CallsCut {
		out = append(out, `,"calls_cut":true`...)
	}
	if a.Duplicate {
		out = append(out, `,"duplicate":true`...)
	}
	return append(out, '}'), nil
}

// appendWholeID appends an id and a quote.
func appendWholeID(to []byte, id turns.ID) []byte {
	to, _ = id.AppendText(to) // it fails for a buffer of another size only
	return append(to, '"')
}

// AppendJSON appends what [turns.EncodeJSON] returns for r to out: the request that a ledger gets most. Errors: those of
// EncodeJSON.
func (r *AppendTurn) AppendJSON(out []byte) (_ []byte, err error) {
	out = append(out, '{')
	if !r.ID.IsZero() {
		out = append(appendWholeID(append(out, `"id":"`...), r.ID), ',')
	}
	if !r.Parent.IsZero() {
		out = append(appendWholeID(append(out, `"parent":"`...), r.Parent), ',')
	}
	out = append(out, `"messages":[`...)
	for i := range r.Messages {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = r.Messages[i].AppendJSON(out); err != nil {
			return out, err
		}
	}
	out = append(out, ']')
	if r.Response != nil {
		if out, err = r.Response.AppendJSON(append(out, `,"response":`...)); err != nil {
			return out, err
		}
	}
	if r.Model != "" {
		if out, err = jsontext.AppendQuote(append(out, `,"model":`...), r.Model); err != nil {
			return out, err
		}
	}
	if r.Usage != nil {
		if out, err = appendOther(append(out, `,"usage":`...), r.Usage); err != nil {
			return out, err
		}
	}
	if r.Time != nil {
		if out, err = appendOther(append(out, `,"time":`...), r.Time); err != nil {
			return out, err
		}
	}
	if r.Meta != nil {
		if out, err = turns.AppendRaw(append(out, `,"meta":`...), r.Meta); err != nil {
			return out, err
		}
	}
	if c := r.Context; c != nil && (c.Recipe != nil || c.Fingerprint != "") {
		if out, err = appendOther(append(out, `,"context":`...), c); err != nil {
			return out, err
		}
	}
	return append(out, '}'), nil
}

// appendOther appends the JSON of a small value.
func appendOther(out []byte, v any) ([]byte, error) {
	b, err := turns.EncodeJSON(v)
	return append(out, b...), err
}
