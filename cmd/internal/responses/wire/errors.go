package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// Error is a refusal, as a client reads it.
type Error struct {
	Status     int    // of HTTP
	Type       string // invalid_request_error, not_found, too_many_requests, server_error, model_error
	Code       string
	Message    string
	Param      string        // the member of the request; "": none
	Final      bool          // a client library must not send the request again
	RetryAfter time.Duration // 0: unknown
	Successor  string        // of a session that was reset: the one that goes on
}

func (e *Error) Error() string { return e.Message }

// ErrorBody is the error member of a refusal and of the event error.
type ErrorBody struct {
	Type    string  `json:"type"`
	Code    *string `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Details *struct {
		Successor string `json:"successor"`
	} `json:"details,omitempty"` // only where there is a successor
}

func (e *Error) Body() ErrorBody {
	b := ErrorBody{Type: e.Type, Message: strings.ToValidUTF8(e.Message, "\uFFFD")} // it may quote what clip has not seen
	if e.Code != "" {
		b.Code = &e.Code
	}
	if e.Param != "" {
		b.Param = &e.Param
	}
	if e.Successor != "" {
		b.Details = &struct {
			Successor string `json:"successor"`
		}{e.Successor}
	}
	return b
}

// Types of errors.
const (
	InvalidRequest = "invalid_request_error"
	NotFoundType   = "not_found"
	TooMany        = "too_many_requests"
	ServerError    = "server_error"
	ModelError     = "model_error"
)

// Codes of errors that this server decides on.
const (
	codePrevious   = "previous_response_not_found"
	CodeLength     = "context_length_exceeded"
	codeLost       = "answer_lost"
	CodeTooLarge   = "answer_too_large"
	CodeKeyReused  = "idempotency_key_reused"
	CodeNoModel    = "model_not_found"
	codeNoResponse = "response_not_found"
)

func Invalid(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: InvalidRequest, Code: "invalid_value", Param: param, Message: fmt.Sprintf(format, args...)}
}

func WithCode(code string, e *Error) *Error {
	e.Code = code
	return e
}

// ErrPrevious is the one answer to an id that names nothing of the caller: an id of
// another agent, of a deleted response and of none look alike.
func ErrPrevious(id string) *Error {
	return WithCode(codePrevious, Invalid("previous_response_id", "Previous response with id '%s' not found.", Clip(id)))
}

func ErrNoResponse(id string) *Error {
	return &Error{Status: http.StatusNotFound, Type: NotFoundType, Code: codeNoResponse, Message: fmt.Sprintf("Response with id '%s' not found.", Clip(id)), Param: "response_id"}
}

// ErrInternal is what a client reads of a fault of the daemon: an id to look for in the log.
func ErrInternal(id turns.ID) *Error {
	return &Error{Status: http.StatusInternalServerError, Type: ServerError, Code: "internal_error", Message: fmt.Sprintf("internal error; the server's log has the reason under the id %s", id)}
}

func ErrLost() *Error {
	return &Error{Status: http.StatusBadGateway, Type: ServerError, Code: codeLost,
		Message: "The answer was lost when the server ended during the call. A request with the same Idempotency-Key asks the model again."}
}

// ErrClosing ends what is under way when the daemon ends. It is no outcome: what a kill
// leaves, this leaves.
var ErrClosing = errors.New("the server is ending")

// ErrCancelled is the cause of a cancelled response.
var ErrCancelled = errors.New("cancelled")

// Clip bounds what an error quotes of a request. A path or a header may be no UTF-8, which a
// reply can't hold; a character that the bound would cut in two is left out.
func Clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// AsError is err as a client of this server reads it.
func AsError(err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	if p := (*provider.Error)(nil); errors.As(err, &p) {
		return ofProvider(p)
	}
	if a := (*api.Error)(nil); errors.As(err, &a) {
		return ofLedger(a)
	}
	switch {
	case errors.Is(err, turns.ErrMalformed), errors.Is(err, turns.ErrTooLarge):
		return Invalid("input", "%s", Clip(err.Error()))
	case errors.Is(err, ErrCancelled):
		return &Error{Status: http.StatusConflict, Type: InvalidRequest, Code: "cancelled", Message: "The response was cancelled.", Final: true}
	case errors.Is(err, ErrClosing), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Error{Status: http.StatusServiceUnavailable, Type: ServerError, Code: "unavailable", Message: "The server is ending, or the request took too long.", RetryAfter: time.Second}
	}
	return &Error{Status: http.StatusInternalServerError, Type: ServerError, Code: "internal_error", Message: "An internal error happened; the server's log has it."}
}

// ofProvider is the refusal that a provider's error becomes.
func ofProvider(p *provider.Error) *Error {
	e := &Error{Status: http.StatusBadGateway, Type: ModelError, Code: p.Code, Message: p.Message, Param: p.Param, RetryAfter: p.RetryAfter}
	if e.Code == "" {
		e.Code = "provider_error"
	}
	switch {
	case p.Code == CodeLength:
		e.Status, e.Type = http.StatusBadRequest, InvalidRequest
	case p.Status == http.StatusTooManyRequests:
		e.Status, e.Type = http.StatusTooManyRequests, TooMany
	case p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden: // the key is the server's, not the caller's
		e.Status, e.Type = http.StatusBadGateway, ServerError
	case p.Status >= 400 && p.Status < 500:
		e.Status, e.Type = p.Status, InvalidRequest
	case p.Status == 0 && p.Code == "timeout":
		e.Status = http.StatusGatewayTimeout
	}
	return e
}

// ofLedger is the refusal that an error of the service becomes. Its status is that of the code,
// but for those of which clients of this API expect another one.
func ofLedger(a *api.Error) *Error {
	e := &Error{Status: a.Status(), Type: ServerError, Code: string(a.Code), Message: a.Message}
	switch a.Code {
	case api.Unprocessable:
		e.Status = http.StatusBadRequest
	case api.Indeterminate: // the same request is to come again
		e.Status = http.StatusServiceUnavailable
	}
	e.Successor, _ = a.Details["successor"].(string)
	switch {
	case e.Status == http.StatusNotFound, e.Status == http.StatusGone:
		e.Type = NotFoundType
	case e.Status == http.StatusTooManyRequests:
		e.Type, e.RetryAfter = TooMany, time.Second
	case e.Status == http.StatusServiceUnavailable:
		e.RetryAfter = time.Second
	case e.Status == http.StatusConflict:
		e.Type, e.Final = InvalidRequest, true
	case e.Status == http.StatusBadRequest, e.Status == http.StatusRequestEntityTooLarge:
		e.Type, e.Param = InvalidRequest, "input"
	case e.Status < http.StatusInternalServerError:
		e.Type = InvalidRequest
	}
	return e
}

// OfCode reports whether err is an error of the service with one of codes.
func OfCode(err error, codes ...api.Code) bool {
	a := (*api.Error)(nil)
	if !errors.As(err, &a) {
		return false
	}
	for _, c := range codes {
		if a.Code == c {
			return true
		}
	}
	return false
}

// Refuse writes a refusal.
func Refuse(w http.ResponseWriter, err error) {
	e := AsError(err)
	h := w.Header()
	if e.Final {
		h.Set("X-Should-Retry", "false")
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	Reply(w, e.Status, struct {
		Error ErrorBody `json:"error"`
	}{e.Body()})
}

// Reply writes v as JSON.
func Reply(w http.ResponseWriter, status int, v any) {
	b, err := turns.EncodeJSON(v)
	if err != nil { // never: what is written was read as JSON
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	AllowWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// writeTimeout bounds the write of an event: a client that reads nothing for so long is gone.
const writeTimeout = 30 * time.Second

// AllowWrite lets the next write take its time: the listener's own bound is for whole
// replies, and streams are longer.
func AllowWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}
