package fault

import "net/http"

// Code names a kind of error that some caller must distinguish.
type Code string

// The codes.
const (
	Invalid              Code = "invalid"                // input, file or configuration is wrong
	TooLarge             Code = "too_large"              // the request is larger than its bound
	BadMediaType         Code = "unsupported_media_type" // the request's Content-Type is not supported
	Failed               Code = "failed"                 // the work was done and failed
	NotFound             Code = "not_found"              // no such pipeline, deployment, …
	Conflict             Code = "conflict"               // changed by another request, or registered with other content
	Refused              Code = "refused"                // understood, but a rule forbids it
	NotWaiting           Code = "not_waiting"            // an approval of something that does not wait for one
	Canceled             Code = "canceled"               // canceled or superseded
	Unauthorized         Code = "unauthorized"           // no valid token
	Forbidden            Code = "forbidden"              // the token lacks the scope, or the origin is foreign
	TooMany              Code = "too_many_requests"      // more requests than its source may send
	Unavailable          Code = "unavailable"            // a needed part cannot be reached: ledger, server, engine, disk
	Pending              Code = "pending"                // only plan: something would change
	Interrupted          Code = "interrupted"            // ended by Ctrl-C, SIGTERM or a closed terminal
	TimedOut             Code = "timed_out"              // only commands that wait: the limit of --timeout has passed first
	Internal             Code = "internal"               // a bug
	NoSuchAction         Code = "no_such_action"         // unknown action id
	Terminal             Code = "terminal"               // the action has ended
	StaleClaim           Code = "stale_claim"            // another instance has the claim now
	IllegalTransition    Code = "illegal_transition"
	NotReady             Code = "not_ready" // not due, or claimed
	OwnedByDeployment    Code = "owned_by_deployment"
	NoSuchHandler        Code = "no_such_handler"
	InvalidParameters    Code = "invalid_parameters"
	BackoffWithoutTime   Code = "backoff_without_time" // a handler deferred its action without a time: a bug
	DuplicateKey         Code = "duplicate_key"
	NoSuchProcess        Code = "no_such_process"
	IdempotencyKeyReused Code = "idempotency_key_reused"
	LedgerUnavailable    Code = "ledger_unavailable"
	StaleEpoch           Code = "stale_epoch" // another instance has the lease of the pipeline now
	Corrupt              Code = "corrupt"     // a stored file is damaged, or of a newer version
)

// Exit statuses of every command.
const (
	ExitDone        = 0   // done, or nothing to do
	ExitFailed      = 1   // the work failed
	ExitUsage       = 2   // usage, file or configuration is wrong
	ExitUnavailable = 3   // a needed part cannot be reached
	ExitRefused     = 4   // canceled, superseded or refused
	ExitPending     = 5   // only plan: something would change
	ExitTimedOut    = 124 // only commands that wait: --timeout has passed first, as with timeout(1)
	ExitInterrupted = 130 // ended by Ctrl-C, SIGTERM or a closed terminal
	ExitUnread      = 141 // the output is not read any more, as behind head(1): as if SIGPIPE had ended it
)

// status is the HTTP status and the exit status of a code.
type status struct{ http, exit int }

var statuses = map[Code]status{
	Invalid:              {http.StatusBadRequest, ExitUsage},
	TooLarge:             {http.StatusRequestEntityTooLarge, ExitUsage},
	BadMediaType:         {http.StatusUnsupportedMediaType, ExitUsage},
	Failed:               {http.StatusUnprocessableEntity, ExitFailed},
	NotFound:             {http.StatusNotFound, ExitUsage},
	Conflict:             {http.StatusConflict, ExitRefused},
	Refused:              {http.StatusConflict, ExitRefused},
	NotWaiting:           {http.StatusUnprocessableEntity, ExitRefused},
	Canceled:             {http.StatusConflict, ExitRefused},
	Unauthorized:         {http.StatusUnauthorized, ExitRefused},
	Forbidden:            {http.StatusForbidden, ExitRefused},
	TooMany:              {http.StatusTooManyRequests, ExitUnavailable},
	Unavailable:          {http.StatusServiceUnavailable, ExitUnavailable},
	Pending:              {http.StatusOK, ExitPending},
	Interrupted:          {http.StatusServiceUnavailable, ExitInterrupted},
	TimedOut:             {http.StatusGatewayTimeout, ExitTimedOut},
	Internal:             {http.StatusInternalServerError, ExitFailed},
	NoSuchAction:         {http.StatusNotFound, ExitUsage},
	Terminal:             {http.StatusConflict, ExitRefused},
	StaleClaim:           {http.StatusConflict, ExitRefused},
	IllegalTransition:    {http.StatusConflict, ExitRefused},
	NotReady:             {http.StatusConflict, ExitRefused},
	OwnedByDeployment:    {http.StatusConflict, ExitRefused},
	NoSuchHandler:        {http.StatusNotFound, ExitUsage},
	InvalidParameters:    {http.StatusBadRequest, ExitUsage},
	BackoffWithoutTime:   {http.StatusInternalServerError, ExitFailed},
	DuplicateKey:         {http.StatusConflict, ExitRefused},
	NoSuchProcess:        {http.StatusNotFound, ExitUsage},
	IdempotencyKeyReused: {http.StatusUnprocessableEntity, ExitRefused},
	LedgerUnavailable:    {http.StatusServiceUnavailable, ExitUnavailable},
	StaleEpoch:           {http.StatusConflict, ExitRefused},
	Corrupt:              {http.StatusInternalServerError, ExitUnavailable},
}

// HTTP returns the response status of the code; 500 for an unknown one.
func (c Code) HTTP() int {
	if s, ok := statuses[c]; ok {
		return s.http
	}
	return http.StatusInternalServerError
}

// Exit returns the exit status of the code; 1 for an unknown one, 0 for "".
func (c Code) Exit() int {
	if c == "" {
		return ExitDone
	}
	if s, ok := statuses[c]; ok {
		return s.exit
	}
	return ExitFailed
}
