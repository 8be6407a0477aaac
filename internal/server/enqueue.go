package server

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// enqueueOnce stores an action for a request that may be sent again.
func (s *Service) enqueueOnce(ctx context.Context, i *ledger.Idempotency, a action.Action, way ledger.OnConflict) (AddedAction, error) {
	if i == nil {
		return s.enqueueAction(ctx, a, way)
	}
	a.Trace = obs.Traceparent(ctx)
	made, err := s.ledger.EnqueueOnce(ctx, *i, a, way)
	if err != nil {
		return AddedAction{}, err
	}
	state, err := s.ledger.Action(ctx, made.ID)
	return AddedAction{state, made.Created}, err
}

// longestKey is the size in bytes that an Idempotency-Key may have.
const longestKey = 255

// IdempotencyOf is what a repeated request is known by: its header, who sends it, and a hash of all that it says; nil
// without the header.
func IdempotencyOf(key, by string, request [sha256.Size]byte) (*ledger.Idempotency, error) {
	if len(key) > longestKey {
		return nil, fault.New(fault.Invalid, "the Idempotency-Key has more than %d bytes", longestKey)
	}
	if key == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	return &ledger.Idempotency{Principal: by, Key: key, Body: request}, nil
}

// offloadParameters stores an action's parameters beside its evidence, before anybody can see the action.
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

// BadParameters gives the faults of what somebody wants done their code; other errors stay as they are.
func BadParameters(err error) error {
	if problems, ok := errors.AsType[fault.Problems](err); ok {
		return fault.Wrap(fault.InvalidParameters, problems)
	}
	return err
}

func (s *Service) enqueueAction(ctx context.Context, a action.Action, way ledger.OnConflict) (AddedAction, error) {
	a.Trace = obs.Traceparent(ctx)
	made, err := s.ledger.EnqueueUnique(ctx, a, way)
	if err != nil {
		return AddedAction{}, err
	}
	state, err := s.ledger.Action(ctx, made.ID)
	return AddedAction{state, made.Created}, err
}
