package service

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// longestKey is the largest size of an Idempotency-Key in bytes.
const longestKey = 255

// IdempotencyOf returns what identifies a repeated request: its header, its sender and a hash of its content; nil without
// the header.
func IdempotencyOf(key, by string, request [sha256.Size]byte) (*queue.Idempotency, error) {
	if len(key) > longestKey {
		return nil, fault.New(fault.Invalid, "the Idempotency-Key has more than %d bytes", longestKey)
	}
	if key == "" {
		return nil, nil //nolint:nilnil // the header is optional
	}
	return &queue.Idempotency{Principal: by, Key: key, Body: request}, nil
}

// offloadParameters stores large parameters in the blob store, beside the action's evidence. It gives the action its id, and
// must come before the action is stored: a conductor that claims it reads them.
func (s *Service) offloadParameters(ctx context.Context, a action.Action) (action.Action, error) {
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return a, err
	}
	a.ID = action.RandomID(now)
	a.Parameters, a.ParametersRef, err = blob.Offload(ctx, s.blobs, parametersKey(a.ID), a.Parameters)
	return a, err
}

func parametersKey(id action.ID) string { return blob.ActionKey(id, "parameters.json") }

// BadParameters returns faults of parameters with the code fault.InvalidParameters, and other errors unchanged.
func BadParameters(err error) error {
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		return fault.Wrap(fault.InvalidParameters, problems)
	}
	return err
}

// enqueue stores an action with the trace of its request, and returns its state.
func (s *Service) enqueue(ctx context.Context, a action.Action, o queue.EnqueueOptions) (AddedAction, error) {
	a.Trace = obs.Traceparent(ctx)
	made, err := s.ledger.EnqueueWith(ctx, o, a)
	if err != nil {
		return AddedAction{}, err
	}
	state, err := s.ledger.Action(ctx, made[0].ID)
	return AddedAction{state, made[0].Created}, err
}

// Keyed returns the HMAC-SHA-256 of a text.
func Keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
