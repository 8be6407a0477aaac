package services

import (
	"context"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// BindingIn reads a binding; nil: there is none.
func (s *Services) BindingIn(tx *store.Tx, instance, id string) (*Binding, error) {
	if err := CheckID("the binding's id", id); err != nil {
		return nil, err
	}
	found, ok, err := s.in(tx).ServiceBinding(instance, id)
	if err != nil || !ok {
		return nil, err
	}
	return &found, nil
}

// BindIn stores a binding of a service instance that the transaction has locked with LockIn, instead of the binding's
// former row. A service instance without a row is fault.NotFound, and a binding that cannot be stored fault.Invalid.
func (s *Services) BindIn(tx *store.Tx, b Binding) error {
	if err := b.check(); err != nil {
		return err
	}
	t := s.in(tx)
	if t.locked[b.Instance] == nil {
		return fault.New(fault.NotFound, "service instance %q of binding %q not found", b.Instance, b.ID)
	}
	return t.PutServiceBinding(b)
}

// UnbindIn deletes a binding of a service instance that the transaction has locked with LockIn. It does
// nothing if there is none.
func (s *Services) UnbindIn(tx *store.Tx, instance, id string) error {
	if err := CheckID("the binding's id", id); err != nil {
		return err
	}
	return s.in(tx).DeleteServiceBindings(instance, id)
}

// Binding reads a binding; nil: there is none.
func (s *Services) Binding(ctx context.Context, instance, id string) (found *Binding, err error) {
	err = s.db.Read(ctx, "read a binding", func(tx *store.Tx) error {
		found, err = s.BindingIn(tx, instance, id)
		return err
	})
	return found, err
}
