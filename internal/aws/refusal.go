package aws

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// Meaning classifies an error of a service for the caller.
type Meaning uint8

// The meanings.
const (
	MayPass Meaning = iota // the error is one of this request, and may pass
	Busy                   // the service refuses work for now, or is not reached: news of the service, not of the request
	Missing                // what was named was not found, or is something else
	Wrong                  // what was sent is at fault, and will be
)

// meanings are of the codes that mean more than their HTTP status.
var meanings = map[string]Meaning{
	"StateMachineDoesNotExist": Missing, "StateMachineDeleting": Missing, "ExecutionDoesNotExist": Missing,
	"QueueDoesNotExist": Missing, "NonExistentQueue": Missing, "ResourceNotFound": Missing, "ResourceNotFoundException": Missing,
	"InvalidArn": Missing, "InvalidName": Missing, "InvalidAddress": Missing, "StateMachineTypeNotSupported": Missing,
	"InvalidExecutionInput": Wrong, "InvalidMessageContents": Wrong, "InvalidParameterValue": Wrong, "ValidationException": Wrong,
	"ExecutionLimitExceeded": Busy, "ServiceQuotaExceededException": Busy, "OverLimit": Busy, "QueueDeletedRecently": Busy,
	"KmsThrottlingException": Busy, "KmsThrottled": Busy,
	// These credentials may be given the missing permission.
	"AccessDenied": Busy, "AccessDeniedException": Busy, "KmsAccessDenied": Busy, "KmsAccessDeniedException": Busy,
	"UnrecognizedClientException": Busy, "InvalidClientTokenId": Busy, "ExpiredToken": Busy, "ExpiredTokenException": Busy,
	"InvalidSecurity": Busy, "InvalidSignatureException": Busy, "IncompleteSignature": Busy, "MissingAuthenticationToken": Busy,
	"MissingAuthenticationTokenException": Busy, "NotAuthorized": Busy, "OptInRequired": Busy,
}

// Judge returns the meaning of an error and its code: the service's word, or unreachable if no service answered.
func Judge(err error) (m Meaning, code string) {
	if errors.Is(err, context.Canceled) {
		return MayPass, "canceled" // the caller that canceled knows why
	}
	api, answered := errors.AsType[smithy.APIError](err)
	if !answered {
		return Busy, "unreachable"
	}
	code = api.ErrorCode()
	code = code[strings.LastIndexAny(code, ".#")+1:] // SQS has older, longer spellings
	if m, known := meanings[code]; known {
		return m, code
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return Busy, code
	}
	if answer, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		switch status := answer.HTTPStatusCode(); {
		case status >= 500, status == http.StatusTooManyRequests, status == http.StatusUnauthorized, status == http.StatusForbidden:
			return Busy, code
		}
	}
	return MayPass, code
}
