package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

// accessLog answers the operations on access and on the state of the whole from its fields.
type accessLog struct {
	clitest.Log

	tokens []token.Token
	status service.StatusView
}

// Call performs an operation with its method.
func (f *accessLog) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := f.Served()
	operation.Serve(c, operation.GetStatus, f.getStatus)
	return c.Call(ctx, d, in, out)
}

func (f *accessLog) ListTokens(context.Context) ([]token.Token, error) {
	return f.tokens, f.Record("ListTokens")
}

func (f *accessLog) CreateToken(_ context.Context, token token.Token) error {
	f.tokens = append(f.tokens, token)
	return f.Record("CreateToken", token.Name)
}

func (f *accessLog) RevokeToken(_ context.Context, name string) error {
	return f.Record("RevokeToken", name)
}

func (f *accessLog) getStatus(context.Context, *operation.Nothing) (service.StatusView, error) {
	return f.status, f.Record("Status")
}
